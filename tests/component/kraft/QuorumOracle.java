package org.apache.kafka.controller;

import java.io.*;
import java.lang.reflect.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;

import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.metadata.*;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.controller.metrics.ControllerMetadataMetrics;
import org.apache.kafka.controller.metrics.ControllerMetadataMetricsPublisher;
import org.apache.kafka.image.*;
import org.apache.kafka.metadata.*;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.raft.*;
import org.apache.kafka.raft.internals.MemoryBatchReader;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.fault.FaultHandler;

/**
 * Kafka's own QuorumController on a quorum of one that commits at once: a command a line, what came of it a line.
 *
 * An answer has four columns: an error or nothing; the batches appended, each "offset epoch hex,hex,..."; the controller's
 * state; and the gauges of Kafka's metrics. Brokers are only ids: their requests are commands. Periodic tasks are off.
 */
@SuppressWarnings({"unchecked", "rawtypes"})
public class QuorumOracle {
  static final int NODE = 3000;
  static final String CLUSTER = "AAAAAAAAAAAAAAAAAAAAJg";
  static final String ELR = "eligible.leader.replicas.version";
  static final long NEVER_MS = 1L << 40;
  static final List<String> appended = Collections.synchronizedList(new ArrayList<>());
  static final List<String> faults = Collections.synchronizedList(new ArrayList<>());
  static final FaultHandler fault = new FaultHandler() {
    @Override public RuntimeException handleFault(String message) { return handleFault(message, null); }
    @Override public RuntimeException handleFault(String message, Throwable cause) {
      faults.add(message + " " + cause);
      return new RuntimeException(message, cause);
    }
  };

  static Raft raft;
  static QuorumController controller;
  static MetadataImage image;
  static Map<String, VersionRange> features;
  static volatile long ahead;
  static boolean endsSessions = false;
  /** Kafka's clock, which can be put forward: a broker that starts again has to outlive its old session. */
  static final Time time = (Time) Proxy.newProxyInstance(QuorumOracle.class.getClassLoader(), new Class[] {Time.class}, (p, method, arguments) -> {
    Object found = method.invoke(Time.SYSTEM, arguments);
    if (method.getName().equals("nanoseconds")) return (Long) found + ahead * 1_000_000L;
    return method.getName().equals("milliseconds") ? (Long) found + ahead : found;
  });
  static final int SESSION_MS = 9_000;

  /** A quorum of one node: what is appended is committed. */
  static class Raft implements InvocationHandler {
    RaftClient.Listener<ApiMessageAndVersion> listener;
    final List<Batch<ApiMessageAndVersion>> prepared = new ArrayList<>();
    long end = 0;
    int epoch = 0;
    boolean leads = false;

    @Override public Object invoke(Object proxy, Method method, Object[] arguments) throws Exception {
      switch (method.getName()) {
        case "register": listener = (RaftClient.Listener<ApiMessageAndVersion>) arguments[0]; return null;
        case "prepareAppend": {
          List<ApiMessageAndVersion> records = new ArrayList<>((List<ApiMessageAndVersion>) arguments[1]);
          prepared.add(Batch.data(end, (Integer) arguments[0], 0, 1, records));
          end += records.size();
          return end - 1;
        }
        case "schedulePreparedAppend": {
          List<Batch<ApiMessageAndVersion>> batches = new ArrayList<>(prepared);
          prepared.clear();
          for (Batch<ApiMessageAndVersion> batch : batches) commit(batch);
          listener.handleCommit(MemoryBatchReader.of(batches, reader -> { }));
          return null;
        }
        case "leaderAndEpoch": return leader();
        case "logEndOffset": return end;
        case "highWatermark": return OptionalLong.of(end);
        case "nodeId": return OptionalInt.of(NODE);
        case "kraftVersion": return method.getReturnType().getEnumConstants()[0];
        case "latestSnapshotId": case "createSnapshot": case "voterNode": return Optional.empty();
        case "shutdown": return CompletableFuture.completedFuture(null);
        case "hashCode": return 1;
        case "equals": return proxy == arguments[0];
        case "toString": return "raft";
        default: return null;
      }
    }
    LeaderAndEpoch leader() { return new LeaderAndEpoch(leads ? OptionalInt.of(NODE) : OptionalInt.empty(), epoch); }

    /** Elect the node in a new epoch, whose first record is the quorum's own. */
    void elect() {
      leads = false;
      epoch++;
      listener.handleLeaderChange(leader());
      appended.add(end + " " + epoch + " elected");
      end++;
      leads = true;
      listener.handleLeaderChange(leader());
    }
  }

  static void commit(Batch<ApiMessageAndVersion> batch) {
    MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
    List<String> words = new ArrayList<>();
    for (ApiMessageAndVersion record : batch.records()) {
      ObjectSerializationCache cache = new ObjectSerializationCache();
      java.nio.ByteBuffer bytes = java.nio.ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(record, cache));
      MetadataRecordSerde.INSTANCE.write(record, cache, new ByteBufferAccessor(bytes));
      words.add(HexFormat.of().formatHex(bytes.array()));
      if (!record.message().getClass().getSimpleName().contains("Transaction")) delta.replay(record.message());
    }
    image = delta.apply(MetadataProvenance.EMPTY);
    appended.add(batch.baseOffset() + " " + batch.epoch() + " " + String.join(",", words));
  }

  static void begin(boolean elr) throws Exception {
    if (controller != null) controller.close();
    raft = new Raft();
    image = MetadataImage.EMPTY;
    Map<String, Short> levels = new HashMap<>();
    if (elr) levels.put(ELR, (short) 1);
    features = (Map<String, VersionRange>) named(QuorumFeatures.class, "defaultSupportedFeatureMap", "defaultFeatureMap").invoke(null, true);
    KafkaConfigSchema schema = (KafkaConfigSchema) Class.forName("kafka.server.KafkaRaftServer").getMethod("configSchema").invoke(null);
    QuorumController.Builder builder = new QuorumController.Builder(NODE, CLUSTER)
      .setTime(time).setFatalFaultHandler(fault).setNonFatalFaultHandler(fault).setConfigSchema(schema)
      .setQuorumFeatures(new QuorumFeatures(NODE, features, List.of(NODE)))
      .setBootstrapMetadata(BootstrapMetadata.fromVersions(MetadataVersion.latestProduction(), levels, "the oracle"))
      .setLeaderImbalanceCheckIntervalNs(OptionalLong.empty()).setMaxIdleIntervalNs(OptionalLong.empty())
      .setSessionTimeoutNs(TimeUnit.MILLISECONDS.toNanos(SESSION_MS))
      .setUncleanLeaderElectionCheckIntervalMs(NEVER_MS)
      .setDelegationTokenCache(new DelegationTokenCache(List.of())).setThreadNamePrefix("oracle")
      .setRaftClient((RaftClient) Proxy.newProxyInstance(QuorumOracle.class.getClassLoader(), new Class[] {RaftClient.class}, raft));
    for (Method method : QuorumController.Builder.class.getMethods()) {
      if (method.getName().equals("setInterBrokerListenerName")) method.invoke(builder, "PLAINTEXT");
      // Before Kafka 4 the session of a fenced broker has ended, and others must not end.
      endsSessions = method.getName().equals("setFenceStaleBrokerIntervalNs") || endsSessions;
      if (method.getName().equals("setFenceStaleBrokerIntervalNs")) method.invoke(builder, TimeUnit.MILLISECONDS.toNanos(NEVER_MS));
    }
    controller = builder.build();
    raft.elect();
    settle();
  }

  static Method named(Class<?> of, String... names) throws Exception {
    for (String name : names) {
      for (Method method : of.getMethods()) if (method.getName().equals(name)) return method;
    }
    throw new NoSuchMethodException(of + " " + List.of(names));
  }

  /** Call a request of the controller; later releases have flags behind, which are off. */
  static Object ask(String name, Object... arguments) throws Exception {
    Method method = named(QuorumController.class, name);
    Object[] all = Arrays.copyOf(arguments, method.getParameterCount());
    for (int i = arguments.length; i < all.length; i++) all[i] = false;
    try { return answer((CompletionStage<Object>) method.invoke(controller, all)); }
    catch (InvocationTargetException e) { return e.getCause().getClass().getSimpleName(); }
  }
  static Object answer(CompletionStage<Object> stage) throws Exception {
    try { return stage.toCompletableFuture().get(30, TimeUnit.SECONDS); }
    catch (ExecutionException e) { return e.getCause().getClass().getSimpleName(); }
  }
  static <T> T inside(Callable<T> work) throws Exception {
    CompletableFuture<T> done = new CompletableFuture<>();
    controller.appendControlEvent("oracle", () -> {
      try { done.complete(work.call()); } catch (Throwable t) { done.completeExceptionally(t); }
    });
    return done.get(30, TimeUnit.SECONDS);
  }
  /** Let events end that are in the queue, and those that they put there. */
  static void settle() throws Exception { for (int i = 0; i < 4; i++) inside(() -> null); }

  static ControllerRequestContext context() {
    RequestHeaderData header = new RequestHeaderData().setRequestApiVersion((short) 3);
    return new ControllerRequestContext(header, KafkaPrincipal.ANONYMOUS, OptionalLong.empty());
  }

  // --- words ---------------------------------------------------------------------------------

  static List<Integer> numbers(String text) { return text.equals("-") ? List.of() : Arrays.stream(text.split(",")).map(Integer::valueOf).collect(Collectors.toList()); }
  static String ints(int[] all) { return all.length == 0 ? "-" : Arrays.stream(all).mapToObj(String::valueOf).collect(Collectors.joining(",")); }
  static String topic(String partition) { return partition.substring(0, partition.lastIndexOf('-')); }
  static int number(String partition) { return Integer.parseInt(partition.substring(partition.lastIndexOf('-') + 1)); }
  static Uuid idOf(String topic) { TopicImage found = image.topics().getTopic(topic); return found == null ? Uuid.ONE_UUID : found.id(); }
  static long epochOf(int broker) { BrokerRegistration found = image.cluster().broker(broker); return found == null ? -1 : found.epoch(); }
  static Uuid directory(int broker, int number) { return new Uuid(100 + broker, number); }
  static String errors(Collection<Short> codes) {
    return codes.stream().filter(code -> code != 0).map(code -> org.apache.kafka.common.protocol.Errors.forCode(code).name()).sorted().distinct().collect(Collectors.joining(","));
  }

  // --- commands ------------------------------------------------------------------------------

  static Object run(String[] w) throws Exception {
    switch (w[0]) {
      case "begin": begin(w[1].equals("elr")); return "";
      case "lead": raft.elect(); settle(); return "";
      case "register": {
        int id = Integer.parseInt(w[1]);
        if (endsSessions) ahead += SESSION_MS + 1;
        BrokerRegistrationRequestData data = new BrokerRegistrationRequestData().setBrokerId(id).setClusterId(CLUSTER)
          .setIncarnationId(Uuid.randomUuid()).setLogDirs(List.of(directory(id, 1), directory(id, 2)))
          .setPreviousBrokerEpoch(w[2].equals("clean") ? epochOf(id) : -1);
        data.listeners().add(new BrokerRegistrationRequestData.Listener().setName("PLAINTEXT").setHost("b" + id).setPort(9092));
        features.forEach((name, range) -> data.features().add(new BrokerRegistrationRequestData.Feature().setName(name).setMinSupportedVersion(range.min()).setMaxSupportedVersion(range.max())));
        return ask("registerBroker", context(), data);
      }
      case "beat": {
        int id = Integer.parseInt(w[1]);
        BrokerHeartbeatRequestData data = new BrokerHeartbeatRequestData().setBrokerId(id).setBrokerEpoch(epochOf(id))
          .setCurrentMetadataOffset(raft.end - 1).setWantFence(w[2].equals("fence")).setWantShutDown(w[2].equals("stop"));
        if (w.length > 3) data.setOfflineLogDirs(numbers(w[3]).stream().map(n -> directory(id, n)).collect(Collectors.toList()));
        return ask("processBrokerHeartbeat", context(), data);
      }
      case "unregister": return ask("unregisterBroker", context(), Integer.parseInt(w[1]));
      case "create": {
        CreateTopicsRequestData.CreatableTopic made = new CreateTopicsRequestData.CreatableTopic().setName(w[1]).setNumPartitions(-1).setReplicationFactor((short) -1);
        String[] parts = w[2].split(";");
        for (int i = 0; i < parts.length; i++) made.assignments().add(new CreateTopicsRequestData.CreatableReplicaAssignment().setPartitionIndex(i).setBrokerIds(numbers(parts[i])));
        CreateTopicsRequestData data = new CreateTopicsRequestData();
        data.topics().add(made);
        Object done = ask("createTopics", context(), data, Set.of());
        return done instanceof CreateTopicsResponseData ? errors(((CreateTopicsResponseData) done).topics().stream().map(t -> t.errorCode()).collect(Collectors.toList())) : done;
      }
      case "expand": {
        String[] parts = w[2].split(";");
        TopicImage held = image.topics().getTopic(w[1]);
        List<CreatePartitionsRequestData.CreatePartitionsAssignment> given = new ArrayList<>();
        for (String part : parts) given.add(new CreatePartitionsRequestData.CreatePartitionsAssignment().setBrokerIds(numbers(part)));
        CreatePartitionsRequestData.CreatePartitionsTopic asked = new CreatePartitionsRequestData.CreatePartitionsTopic().setName(w[1]).setAssignments(given)
          .setCount((held == null ? 0 : held.partitions().size()) + parts.length);
        Object done = ask("createPartitions", context(), List.of(asked), false);
        return done instanceof List ? errors(((List<CreatePartitionsResponseData.CreatePartitionsTopicResult>) done).stream().map(t -> t.errorCode()).collect(Collectors.toList())) : done;
      }
      case "delete": return ask("deleteTopics", context(), List.of(idOf(w[1])));
      case "isr": {
        String name = topic(w[1]);
        TopicImage held = image.topics().getTopic(name);
        PartitionRegistration part = held == null ? null : held.partitions().get(number(w[1]));
        if (part == null) return "no such partition";
        List<AlterPartitionRequestData.BrokerState> isr = numbers(w[2]).stream().map(b -> new AlterPartitionRequestData.BrokerState().setBrokerId(b).setBrokerEpoch(epochOf(b))).collect(Collectors.toList());
        AlterPartitionRequestData.PartitionData of = new AlterPartitionRequestData.PartitionData().setPartitionIndex(number(w[1])).setLeaderEpoch(part.leaderEpoch)
          .setPartitionEpoch(part.partitionEpoch).setNewIsrWithEpochs(isr).setLeaderRecoveryState(Byte.parseByte(w[3]));
        AlterPartitionRequestData data = new AlterPartitionRequestData().setBrokerId(part.leader).setBrokerEpoch(epochOf(part.leader))
          .setTopics(List.of(new AlterPartitionRequestData.TopicData().setTopicId(held.id()).setPartitions(List.of(of))));
        Object done = ask("alterPartition", context(), data);
        return done instanceof AlterPartitionResponseData ? errors(List.of(((AlterPartitionResponseData) done).topics().get(0).partitions().get(0).errorCode())) : done;
      }
      case "reassign": {
        AlterPartitionReassignmentsRequestData.ReassignablePartition part = new AlterPartitionReassignmentsRequestData.ReassignablePartition()
          .setPartitionIndex(number(w[1])).setReplicas(w[2].equals("cancel") ? null : numbers(w[2]));
        AlterPartitionReassignmentsRequestData data = new AlterPartitionReassignmentsRequestData()
          .setTopics(List.of(new AlterPartitionReassignmentsRequestData.ReassignableTopic().setName(topic(w[1])).setPartitions(List.of(part))));
        Object done = ask("alterPartitionReassignments", context(), data);
        return done instanceof AlterPartitionReassignmentsResponseData ? errors(List.of(((AlterPartitionReassignmentsResponseData) done).responses().get(0).partitions().get(0).errorCode())) : done;
      }
      case "elect": {
        ElectLeadersRequestData data = new ElectLeadersRequestData().setElectionType((byte) (w[1].equals("preferred") ? 0 : 1));
        if (w[2].equals("all")) data.setTopicPartitions(null);
        else for (String partition : w[2].split(",")) {
          ElectLeadersRequestData.TopicPartitions of = data.topicPartitions().find(topic(partition));
          if (of == null) data.topicPartitions().add(of = new ElectLeadersRequestData.TopicPartitions().setTopic(topic(partition)).setPartitions(new ArrayList<>()));
          of.partitions().add(number(partition));
        }
        Object done = ask("electLeaders", context(), data);
        return done instanceof ElectLeadersResponseData ? errors(((ElectLeadersResponseData) done).replicaElectionResults().stream().flatMap(r -> r.partitionResult().stream()).map(p -> p.errorCode()).collect(Collectors.toList())) : done;
      }
      case "config": {
        ConfigResource of = new ConfigResource(w[1].equals("topic") ? ConfigResource.Type.TOPIC : ConfigResource.Type.BROKER, w[2].equals("-") ? "" : w[2]);
        Map.Entry<OpType, String> change = w[4].equals("-") ? new AbstractMap.SimpleEntry<>(OpType.DELETE, null) : new AbstractMap.SimpleEntry<>(OpType.SET, w[4]);
        return ask("incrementalAlterConfigs", context(), Map.of(of, Map.of(w[3], change)), false);
      }
      case "feature": {
        UpdateFeaturesRequestData data = new UpdateFeaturesRequestData();
        data.featureUpdates().add(new UpdateFeaturesRequestData.FeatureUpdateKey().setFeature(w[1]).setMaxVersionLevel(Short.parseShort(w[2])).setUpgradeType((byte) (w[2].equals("0") ? 2 : 1)));
        return ask("updateFeatures", context(), data);
      }
      case "place": {
        int id = Integer.parseInt(w[1]);
        AssignReplicasToDirsRequestData.TopicData of = new AssignReplicasToDirsRequestData.TopicData().setTopicId(idOf(topic(w[3])))
          .setPartitions(List.of(new AssignReplicasToDirsRequestData.PartitionData().setPartitionIndex(number(w[3]))));
        AssignReplicasToDirsRequestData data = new AssignReplicasToDirsRequestData().setBrokerId(id).setBrokerEpoch(epochOf(id))
          .setDirectories(List.of(new AssignReplicasToDirsRequestData.DirectoryData().setId(directory(id, Integer.parseInt(w[2]))).setTopics(List.of(of))));
        return ask("assignReplicasToDirs", context(), data);
      }
      // The controller's own periodic tasks, which it does when their time has come.
      case "balance": return answer((CompletableFuture) controller.appendWriteEvent("balance", OptionalLong.empty(), () -> controller.replicationControl().maybeBalancePartitionLeaders()));
      case "unclean": return answer((CompletableFuture) controller.appendWriteEvent("unclean", OptionalLong.empty(), () -> controller.replicationControl().maybeElectUncleanLeaders()));
      default: throw new IllegalArgumentException(w[0]);
    }
  }

  static String state() throws Exception {
    return inside(() -> {
      List<String> lines = new ArrayList<>();
      ReplicationControlManager replication = controller.replicationControl();
      image.topics().topicsByName().forEach((name, topic) -> {
        lines.add("T " + name + " " + topic.id());
        for (int i = 0; i < topic.partitions().size(); i++) {
          PartitionRegistration p = replication.getPartition(topic.id(), i);
          lines.add("P " + name + "-" + i + " " + ints(p.replicas) + " " + ints(p.isr) + " " + ints(p.addingReplicas) + " " + ints(p.removingReplicas) + " " + p.leader + " " + p.leaderEpoch
            + " " + p.partitionEpoch + " " + p.leaderRecoveryState.value() + " " + ints(p.elr) + " " + ints(p.lastKnownElr) + " " + controller.configurationControl().getTopicConfig(name, "min.insync.replicas").value());
        }
      });
      controller.clusterControl().brokerRegistrations().forEach((id, b) ->
        lines.add("B " + id + " " + b.epoch() + " " + b.fenced() + " " + b.inControlledShutdown() + " " + b.directories().size()));
      lines.add("F " + MetadataVersion.FEATURE_NAME + " " + MetadataVersion.latestProduction().featureLevel());
      image.features().finalizedVersions().forEach((name, level) -> lines.add("F " + name + " " + level));
      lines.add("I " + replication.imbalancedPartitions().size());
      Collections.sort(lines);
      return String.join("|", lines);
    });
  }
  static String gauges() throws Exception {
    ControllerMetadataMetrics metrics = new ControllerMetadataMetrics(Optional.empty());
    Method publish = ControllerMetadataMetricsPublisher.class.getDeclaredMethod("publishSnapshot", MetadataImage.class);
    publish.setAccessible(true);
    publish.invoke(new ControllerMetadataMetricsPublisher(metrics, fault), image);
    return metrics.activeBrokerCount() + " " + metrics.fencedBrokerCount() + " " + metrics.globalTopicCount() + " " + metrics.globalPartitionCount() + " "
      + metrics.offlinePartitionCount() + " " + metrics.preferredReplicaImbalanceCount();
  }

  public static void main(String[] arguments) throws Exception {
    PrintStream out = new PrintStream(System.out, true, "UTF-8");
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      appended.clear();
      String answer;
      try {
        Object done = run(line.split(" "));
        answer = done instanceof String ? (String) done : "";
        settle();
      } catch (Throwable t) { answer = "BUG " + t; t.printStackTrace(); }
      if (!faults.isEmpty()) answer = "FAULT " + faults;
      faults.clear();
      out.println(answer.replace('\n', ' ').replace('\t', ' ') + "\t" + String.join("|", appended) + "\t" + state() + "\t" + gauges());
    }
    System.exit(0);
  }
}
