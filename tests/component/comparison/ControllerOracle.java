import java.lang.reflect.*;
import java.util.*;
import java.util.stream.*;
import scala.Option;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

import kafka.api.LeaderAndIsr;
import kafka.cluster.Broker;
import kafka.controller.*;
import kafka.server.KafkaConfig$;
import kafka.server.KafkaConfig;
import kafka.zk.*;
import kafka.zookeeper.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.requests.*;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.data.Stat;

/** Kafka's own controller over a ZooKeeper of maps: a command a line, what came of it a line. */
@SuppressWarnings({"unchecked", "rawtypes"})
public class ControllerOracle {
  static final int EPOCH = 50;
  static final int EPOCH_ZK_VERSION = 49;
  static final KafkaConfig CONFIG = config();
  static final List<String> written = new ArrayList<>();
  static final List<String> sent = new ArrayList<>();
  static final Zookeeper zookeeper = new Zookeeper();
  static final KafkaController controller = controller();
  static final ControllerContext context = controller.controllerContext();

  static KafkaConfig config() {
    Properties p = new Properties();
    p.put("broker.id", "1");
    p.put("zookeeper.connect", "nowhere:1");
    return KafkaConfig$.MODULE$.fromProps(p, false);
  }

  /** What the state machines read and write. */
  static class Zookeeper extends KafkaZkClient {
    final Map<TopicPartition, byte[]> states = new HashMap<>();
    final Map<TopicPartition, Integer> versions = new HashMap<>();
    final Set<String> unclean = new HashSet<>();
    Map<TopicPartition, scala.collection.Seq<Object>> reassignment = null;

    Zookeeper() { super(null, false, Time.SYSTEM, false); }

    @Override public scala.collection.Seq<GetDataResponse> getTopicPartitionStatesRaw(scala.collection.Seq<TopicPartition> partitions) {
      List<GetDataResponse> responses = new ArrayList<>();
      for (TopicPartition tp : CollectionConverters.asJava(partitions)) {
        byte[] data = states.get(tp);
        Stat stat = new Stat();
        stat.setVersion(versions.getOrDefault(tp, 0));
        responses.add(new GetDataResponse(data == null ? Code.NONODE : Code.OK, "", Option.apply((Object) tp), data, stat, new ResponseMetadata(0, 0)));
      }
      return seq(responses);
    }
    @Override public KafkaZkClient.UpdateLeaderAndIsrResult updateLeaderAndIsr(scala.collection.Map<TopicPartition, LeaderAndIsr> asked, int epoch, int version) {
      Map<TopicPartition, scala.util.Either<Exception, LeaderAndIsr>> done = new LinkedHashMap<>();
      for (Map.Entry<TopicPartition, LeaderAndIsr> e : CollectionConverters.asJava(asked).entrySet()) {
        TopicPartition tp = e.getKey();
        int expected = e.getValue().partitionEpoch();
        if (versions.get(tp) != expected) throw new IllegalStateException("version of " + tp);
        byte[] data = TopicPartitionStateZNode$.MODULE$.encode(new LeaderIsrAndControllerEpoch(e.getValue(), epoch));
        states.put(tp, data);
        versions.put(tp, expected + 1);
        written.add("set " + tp + " " + new String(data) + " " + expected);
        done.put(tp, new scala.util.Right(e.getValue().withPartitionEpoch(expected + 1)));
      }
      return new KafkaZkClient.UpdateLeaderAndIsrResult((scala.collection.Map) CollectionConverters.asScala(done), (scala.collection.Seq) seq(List.of()));
    }
    @Override public scala.collection.Seq<CreateResponse> createTopicPartitionStatesRaw(scala.collection.Map<TopicPartition, LeaderIsrAndControllerEpoch> asked, int version) {
      List<CreateResponse> responses = new ArrayList<>();
      for (Map.Entry<TopicPartition, LeaderIsrAndControllerEpoch> e : CollectionConverters.asJava(asked).entrySet()) {
        TopicPartition tp = e.getKey();
        boolean there = states.containsKey(tp);
        if (!there) {
          byte[] data = TopicPartitionStateZNode$.MODULE$.encode(e.getValue());
          states.put(tp, data);
          versions.put(tp, 0);
          written.add("create " + tp + " " + new String(data));
        }
        responses.add(new CreateResponse(there ? Code.NODEEXISTS : Code.OK, "", Option.apply((Object) tp), "", new ResponseMetadata(0, 0)));
      }
      return seq(responses);
    }
    @Override public Tuple2<scala.collection.Map<String, LogConfig>, scala.collection.Map<String, Exception>> getLogConfigs(scala.collection.immutable.Set<String> topics, Map<String, Object> defaults) {
      Map<String, LogConfig> configs = new HashMap<>();
      for (String topic : CollectionConverters.asJava(topics)) {
        Properties p = new Properties();
        p.put("unclean.leader.election.enable", "" + unclean.contains(topic));
        configs.put(topic, LogConfig.fromProps(Map.of(), p));
      }
      return new Tuple2<>((scala.collection.Map) CollectionConverters.asScala(configs), (scala.collection.Map) CollectionConverters.asScala(new HashMap<String, Exception>()));
    }
    @Override public SetDataResponse setTopicAssignmentRaw(String topic, Option<Uuid> id, scala.collection.Map<TopicPartition, ReplicaAssignment> assignment, int version) {
      written.add("assign " + topic + " " + new String(TopicZNode$.MODULE$.encode(id, assignment)));
      return new SetDataResponse(Code.OK, "", Option.empty(), new Stat(), new ResponseMetadata(0, 0));
    }
    @Override public void deleteTopicZNode(String topic, int version) {
      states.keySet().removeIf(tp -> tp.topic().equals(topic));
      versions.keySet().removeIf(tp -> tp.topic().equals(topic));
      written.add("rmr " + topic);
    }
    @Override public void deleteTopicConfigs(scala.collection.Seq<String> topics, int version) {
      for (String t : CollectionConverters.asJava(topics)) written.add("rm /config/topics/" + t);
    }
    @Override public void deleteTopicDeletions(scala.collection.Seq<String> topics, int version) {
      for (String t : CollectionConverters.asJava(topics)) written.add("rm /admin/delete_topics/" + t);
    }
    @Override public boolean reassignPartitionsInProgress() { return reassignment != null; }
    @Override public scala.collection.Map<TopicPartition, scala.collection.Seq<Object>> getPartitionReassignment() {
      return (scala.collection.Map) CollectionConverters.asScala(reassignment == null ? new HashMap<>() : reassignment);
    }
    @Override public void setOrCreatePartitionReassignment(scala.collection.Map<TopicPartition, scala.collection.Seq<Object>> left, int version) {
      reassignment = new HashMap<>(CollectionConverters.asJava(left));
      TreeMap<String, String> told = new TreeMap<>();
      reassignment.forEach((tp, replicas) -> told.put(tp.toString(), ints(replicas)));
      written.add("reassign " + told);
    }
    @Override public void deletePartitionReassignment(int version) { reassignment = null; written.add("rm /admin/reassign_partitions"); }
    @Override public boolean registerZNodeChangeHandlerAndCheckExistence(ZNodeChangeHandler handler) { return reassignment != null; }
    @Override public Option<Object> getControllerId() { return (Option) Option.apply(1); }
  }

  /** Takes requests instead of sending them. */
  static class Channels extends ControllerChannelManager {
    Channels() { super(() -> EPOCH, CONFIG, Time.SYSTEM, new Metrics(), new StateChangeLogger(1, true, Option.empty()), Option.empty()); }
    @Override public void sendRequest(int broker, AbstractControlRequest.Builder<? extends AbstractControlRequest> builder, scala.Function1<AbstractResponse, scala.runtime.BoxedUnit> callback) {
      AbstractControlRequest request = builder.build();
      String head = " to " + broker + " " + request.brokerEpoch() + " " + request.controllerId() + " " + request.controllerEpoch() + ": ";
      if (request instanceof LeaderAndIsrRequest) {
        LeaderAndIsrRequest r = (LeaderAndIsrRequest) request;
        sent.add("LeaderAndIsr" + head + told(r.partitionStates(), p -> name(p.topicName(), p.partitionIndex()) + " " + p.controllerEpoch() + " " + p.leader() + " " + p.leaderEpoch()
          + " " + p.isr() + " " + p.partitionEpoch() + " " + p.replicas() + " " + p.addingReplicas() + " " + p.removingReplicas() + " " + p.isNew() + " " + p.leaderRecoveryState())
          + " leaders " + r.liveLeaders().stream().map(l -> l.brokerId()).sorted().collect(Collectors.toList())
          + " ids " + new TreeMap<>(r.topicIds()) + " " + r.requestType());
      } else if (request instanceof UpdateMetadataRequest) {
        UpdateMetadataRequest r = (UpdateMetadataRequest) request;
        sent.add("UpdateMetadata" + head + told(r.partitionStates(), p -> name(p.topicName(), p.partitionIndex()) + " " + p.controllerEpoch() + " " + p.leader() + " " + p.leaderEpoch()
          + " " + p.isr() + " " + p.zkVersion() + " " + p.replicas() + " " + p.offlineReplicas())
          + " live " + r.liveBrokers().stream().map(l -> l.id()).sorted().collect(Collectors.toList()));
      } else {
        StopReplicaRequest r = (StopReplicaRequest) request;
        List<String> parts = new ArrayList<>();
        r.partitionStates().forEach((tp, p) -> parts.add(tp + " " + p.leaderEpoch() + " " + p.deletePartition()));
        Collections.sort(parts);
        sent.add("StopReplica" + head + String.join(", ", parts));
      }
    }
  }

  static <T> String told(Iterable<T> parts, java.util.function.Function<T, String> how) {
    List<String> lines = new ArrayList<>();
    for (T part : parts) lines.add(how.apply(part));
    Collections.sort(lines);
    return String.join(", ", lines);
  }
  static String name(String topic, int partition) { return topic + "-" + partition; }

  static KafkaController controller() {
    try {
      kafka.server.metadata.ZkFinalizedFeatureCache features = (kafka.server.metadata.ZkFinalizedFeatureCache) Proxy.newProxyInstance(
        ControllerOracle.class.getClassLoader(), new Class[] {kafka.server.metadata.ZkFinalizedFeatureCache.class}, (a, m, c) -> Option.empty());
      KafkaController made = new KafkaController(CONFIG, zookeeper, Time.SYSTEM, new Metrics(), null, 0L, null, kafka.server.BrokerFeatures$.MODULE$.createDefault(true), features, Option.empty());
      Channels channels = new Channels();
      made.controllerChannelManager_$eq(channels);
      for (Object holder : List.of(made, made.replicaStateMachine(), made.partitionStateMachine())) {
        for (Field f : holder.getClass().getDeclaredFields()) {
          if (!ControllerBrokerRequestBatch.class.isAssignableFrom(f.getType())) continue;
          f.setAccessible(true);
          Field inner = ControllerBrokerRequestBatch.class.getDeclaredField("controllerChannelManager");
          inner.setAccessible(true);
          inner.set(f.get(holder), channels);
        }
      }
      made.activeControllerId_$eq(1);
      made.controllerContext().epoch_$eq(EPOCH);
      made.controllerContext().epochZkVersion_$eq(EPOCH_ZK_VERSION);
      return made;
    } catch (ReflectiveOperationException e) { throw new IllegalStateException(e); }
  }

  static Object call(String method, Object... arguments) throws Exception {
    for (Method m : KafkaController.class.getDeclaredMethods()) {
      if (m.getName().equals(method) && m.getParameterCount() == arguments.length && !Modifier.isStatic(m.getModifiers())) {
        m.setAccessible(true);
        try { return m.invoke(controller, arguments); }
        catch (InvocationTargetException e) { return e.getCause().getClass().getSimpleName(); }
      }
    }
    throw new IllegalArgumentException(method);
  }

  // --- words ---------------------------------------------------------------------------------

  static <T> scala.collection.immutable.Seq<T> seq(List<T> list) { return CollectionConverters.asScala(list).toList(); }
  static <T> scala.collection.immutable.Set<T> set(Collection<T> all) { return CollectionConverters.asScala(new ArrayList<>(all)).toSet(); }
  static String ints(scala.collection.Seq<?> xs) { return CollectionConverters.asJava(xs).toString(); }
  static List<Object> numbers(String text) {
    List<Object> out = new ArrayList<>();
    if (!text.equals("-")) for (String one : text.split(",")) out.add(Integer.valueOf(one));
    return out;
  }
  static TopicPartition tp(String text) { int at = text.lastIndexOf('-'); return new TopicPartition(text.substring(0, at), Integer.parseInt(text.substring(at + 1))); }
  static List<TopicPartition> tps(String text) { return text.equals("-") ? List.of() : Arrays.stream(text.split(",")).map(ControllerOracle::tp).collect(Collectors.toList()); }
  static PartitionAndReplica replica(String text) { int at = text.lastIndexOf(':'); return new PartitionAndReplica(tp(text.substring(0, at)), Integer.parseInt(text.substring(at + 1))); }
  static List<PartitionAndReplica> replicas(String text) { return text.equals("-") ? List.of() : Arrays.stream(text.split(",")).map(ControllerOracle::replica).collect(Collectors.toList()); }
  static List<String> words(String text) { return text.equals("-") ? List.of() : List.of(text.split(",")); }
  static Object named(String name) throws Exception { return Class.forName("kafka.controller." + name + "$").getField("MODULE$").get(null); }

  // --- commands ------------------------------------------------------------------------------

  static String run(String[] w) throws Exception {
    switch (w[0]) {
      case "reset":
        context.resetContext();
        context.epoch_$eq(EPOCH);
        context.epochZkVersion_$eq(EPOCH_ZK_VERSION);
        context.replicasOnOfflineDirs().clear();
        zookeeper.states.clear();
        zookeeper.versions.clear();
        zookeeper.unclean.clear();
        zookeeper.reassignment = null;
        return "";
      case "live": {
        Map<Broker, Object> live = new LinkedHashMap<>();
        for (Object id : numbers(w[1])) live.put(new Broker((Integer) id, "h", 1, new ListenerName("PLAINTEXT"), SecurityProtocol.PLAINTEXT), 100L + (Integer) id);
        context.setLiveBrokers((scala.collection.Map) CollectionConverters.asScala(live));
        return "";
      }
      case "shutting": context.shuttingDownBrokerIds().clear(); for (Object id : numbers(w[1])) context.shuttingDownBrokerIds().add(id); return "";
      case "dirs": context.replicasOnOfflineDirs().put(Integer.valueOf(w[1]), (scala.collection.Set) set(tps(w[2]))); return "";
      case "topic": context.allTopics().add(w[1]); context.addTopicId(w[1], Uuid.fromString(w[2])); return "";
      case "assign": context.updatePartitionFullReplicaAssignment(tp(w[1]), ReplicaAssignment.apply((scala.collection.Seq) seq(numbers(w[2])), (scala.collection.Seq) seq(numbers(w[3])), (scala.collection.Seq) seq(numbers(w[4])))); return "";
      case "state": {
        LeaderAndIsr l = kafka.api.LeaderAndIsr$.MODULE$.apply(Integer.parseInt(w[2]), Integer.parseInt(w[3]), (scala.collection.immutable.List) seq(numbers(w[4])), LeaderRecoveryState.of((byte) Integer.parseInt(w[5])), Integer.parseInt(w[7]));
        LeaderIsrAndControllerEpoch both = new LeaderIsrAndControllerEpoch(l, Integer.parseInt(w[6]));
        zookeeper.states.put(tp(w[1]), TopicPartitionStateZNode$.MODULE$.encode(both));
        zookeeper.versions.put(tp(w[1]), Integer.parseInt(w[7]));
        if (w[8].equals("too")) context.putPartitionLeadershipInfo(tp(w[1]), both);
        return "";
      }
      case "nostate": zookeeper.states.remove(tp(w[1])); zookeeper.versions.remove(tp(w[1])); return "";
      case "unclean": zookeeper.unclean.clear(); zookeeper.unclean.addAll(words(w[1])); return "";
      case "startup": controller.replicaStateMachine().startup(); controller.partitionStateMachine().startup(); return "";
      case "partitions": {
        Option strategy = Option.empty();
        if (w[3].equals("clean") || w[3].equals("unclean")) strategy = Option.apply(new OfflinePartitionLeaderElectionStrategy(w[3].equals("unclean")));
        else if (!w[3].equals("-")) strategy = Option.apply(named(w[3] + "PartitionLeaderElectionStrategy"));
        return results(controller.partitionStateMachine().handleStateChanges((scala.collection.Seq) seq(tps(w[1])), (PartitionState) named(w[2]), strategy));
      }
      case "trigger": return results(controller.partitionStateMachine().triggerOnlinePartitionStateChange());
      case "replicas": controller.replicaStateMachine().handleStateChanges((scala.collection.Seq) seq(replicas(w[1])), (ReplicaState) named(w[2])); return "";
      case "enqueue": deletion().enqueueTopicsForDeletion((scala.collection.Set) set(words(w[1]))); return "";
      case "resume": deletion().resumeDeletionForTopics((scala.collection.Set) set(words(w[1]))); return "";
      case "mark": deletion().markTopicIneligibleForDeletion((scala.collection.Set) set(words(w[1])), () -> "test"); return "";
      case "failed": deletion().failReplicaDeletion((scala.collection.Set) set(replicas(w[1]))); return "";
      case "deleted": deletion().completeReplicaDeletion((scala.collection.Set) set(replicas(w[1]))); return "";
      case "alter": {
        Map<TopicPartition, Option> asked = new HashMap<>();
        asked.put(tp(w[1]), w[2].equals("cancel") ? Option.empty() : Option.apply(seq(numbers(w[2]))));
        StringBuilder answer = new StringBuilder();
        scala.Function1 callback = new scala.runtime.AbstractFunction1() {
          public Object apply(Object either) {
            for (Object e : CollectionConverters.asJava((scala.collection.Map<?, ?>) ((scala.util.Either) either).swap().toOption().get()).entrySet())
              answer.append(((Map.Entry) e).getKey()).append(" ").append(((ApiError) ((Map.Entry) e).getValue()).error());
            return scala.runtime.BoxedUnit.UNIT;
          }
        };
        call("processApiPartitionReassignment", CollectionConverters.asScala(asked), callback);
        return answer.toString();
      }
      case "znode": {
        zookeeper.reassignment = new HashMap<>();
        for (String part : w[1].split(";")) zookeeper.reassignment.put(tp(part.split("=")[0]), (scala.collection.Seq) seq(numbers(part.split("=")[1])));
        return broken(call("processZkPartitionReassignment"));
      }
      case "go-on": return broken(call("maybeResumeReassignments", new scala.runtime.AbstractFunction2() { public Object apply(Object a, Object b) { return true; } }));
      case "init": deletion().init((scala.collection.Set) set(words(w[1])), (scala.collection.Set) set(words(w[2]))); return "";
      case "try": deletion().tryTopicDeletion(); return "";
      case "caught-up": return context.partitionsBeingReassigned().contains(tp(w[1])) ? broken(call("maybeCompleteReassignment", tp(w[1]))) : "";
      default: throw new IllegalArgumentException(w[0]);
    }
  }
  static String broken(Object result) { return result instanceof String ? "broken off" : ""; }
  static TopicDeletionManager deletion() throws Exception { return (TopicDeletionManager) call("topicDeletionManager"); }
  static String results(scala.collection.Map<TopicPartition, scala.util.Either<Throwable, LeaderAndIsr>> map) {
    TreeMap<String, String> told = new TreeMap<>();
    CollectionConverters.asJava(map).forEach((tp, r) -> told.put(tp.toString(), r.isLeft() ? r.swap().toOption().get().getClass().getSimpleName() : leaderAndIsr(r.toOption().get())));
    return told.toString();
  }
  static String leaderAndIsr(LeaderAndIsr l) { return l.leader() + "/" + l.leaderEpoch() + "/" + ints(l.isr()).replace(", ", "+") + "/" + l.leaderRecoveryState().value(); }

  static String dump() {
    List<String> lines = new ArrayList<>();
    CollectionConverters.asJava(context.partitionStates()).forEach((tp, s) -> lines.add("P " + tp + " " + s));
    CollectionConverters.asJava(context.replicaStates()).forEach((r, s) -> lines.add("R " + r.topicPartition() + ":" + r.replica() + " " + s));
    CollectionConverters.asJava(context.partitionsLeadershipInfo()).forEach((tp, l) -> lines.add("L " + tp + " " + leaderAndIsr(l.leaderAndIsr()) + " " + l.leaderAndIsr().partitionEpoch() + " " + l.controllerEpoch()));
    CollectionConverters.asJava(context.partitionAssignments()).forEach((topic, by) -> CollectionConverters.asJava(by).forEach((p, a) ->
      lines.add("A " + topic + "-" + p + " " + ints(a.replicas()) + ints(a.addingReplicas()) + ints(a.removingReplicas()))));
    CollectionConverters.asJava(context.topicsToBeDeleted()).forEach(t -> lines.add("Q " + t));
    CollectionConverters.asJava(context.topicsWithDeletionStarted()).forEach(t -> lines.add("S " + t));
    CollectionConverters.asJava(context.topicsIneligibleForDeletion()).forEach(t -> lines.add("I " + t));
    CollectionConverters.asJava(context.partitionsBeingReassigned()).forEach(tp -> lines.add("B " + tp));
    lines.add("G " + context.offlinePartitionCount() + " " + context.preferredReplicaImbalanceCount());
    Collections.sort(lines);
    return String.join("|", lines);
  }

  public static void main(String[] arguments) throws Exception {
    java.io.PrintStream out = new java.io.PrintStream(System.out, true, "UTF-8");
    java.io.BufferedReader in = new java.io.BufferedReader(new java.io.InputStreamReader(System.in, "UTF-8"));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      written.clear();
      sent.clear();
      String answer;
      try { answer = run(line.split(" ")); }
      catch (Throwable t) { answer = "BUG " + t; t.printStackTrace(); }
      Collections.sort(sent);
      out.println(answer + "\t" + String.join("|", written) + "\t" + String.join("|", sent) + "\t" + dump());
    }
  }
}
