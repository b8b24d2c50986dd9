import java.util.*;
import scala.jdk.javaapi.CollectionConverters;

import kafka.controller.*;
import kafka.zk.*;
import kafka.api.LeaderAndIsr;
import kafka.cluster.EndPoint;
import org.apache.kafka.common.*;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.feature.*;
import org.apache.kafka.metadata.LeaderRecoveryState;
/** Kafka's own codecs of znodes: "encode" prints what it writes, "decode" what it reads. */
public class ZnodeOracle {
  static scala.collection.immutable.List<Object> ints(int... xs){ ArrayList<Object> l=new ArrayList<>(); for(int x:xs) l.add(x); return CollectionConverters.asScala(l).toList(); }
  static void out(String name, byte[] b) throws Exception { String text = new String(b, "UTF-8").replaceAll("\"timestamp\":\"[0-9]{13}\"", "\"timestamp\":\"17\"");
    new java.io.PrintStream(System.out, true, "UTF-8").println(name + "\t" + text); }
  static TopicPartition tp(String t,int p){ return new TopicPartition(t,p);}
  static String seq(scala.collection.Seq<?> xs) { return CollectionConverters.asJava(xs).toString(); }
  @SuppressWarnings({"unchecked","rawtypes"})
  static String read(String kind, byte[] b) {
    switch (kind) {
      case "controller": return "" + ControllerZNode$.MODULE$.decodeController(b, 0).broker();
      case "epoch": return "" + ControllerEpochZNode$.MODULE$.decode(b);
      case "state": {
        LeaderIsrAndControllerEpoch l = TopicPartitionStateZNode$.MODULE$.decode(b, new org.apache.zookeeper.data.Stat()).get();
        return l.leaderAndIsr().leader() + " " + l.leaderAndIsr().leaderEpoch() + " " + l.controllerEpoch() + " "
          + seq(l.leaderAndIsr().isr()) + " " + l.leaderAndIsr().leaderRecoveryState().value();
      }
      case "topic": {
        TopicZNode.TopicIdReplicaAssignment t = TopicZNode$.MODULE$.decode("t", b);
        TreeMap<Integer, String> m = new TreeMap<>();
        for (java.util.Map.Entry<TopicPartition, ReplicaAssignment> e : CollectionConverters.asJava(t.assignment()).entrySet())
          m.put(e.getKey().partition(), seq(e.getValue().replicas()) + seq(e.getValue().addingReplicas()) + seq(e.getValue().removingReplicas()));
        return m + " " + (t.topicId().isDefined() ? t.topicId().get() : "-");
      }
      case "isr-change": case "preferred": {
        TreeSet<String> r = new TreeSet<>();
        scala.collection.Set<TopicPartition> ps = kind.equals("preferred") ? PreferredReplicaElectionZNode$.MODULE$.decode(b) : IsrChangeNotificationSequenceZNode$.MODULE$.decode(b);
        for (TopicPartition p : CollectionConverters.asJava(ps)) r.add(p.topic() + "-" + p.partition());
        return r.toString();
      }
      case "reassign": {
        scala.util.Either<?, scala.collection.Map<TopicPartition, scala.collection.Seq<Object>>> e = (scala.util.Either) ReassignPartitionsZNode$.MODULE$.decode(b);
        TreeMap<String, String> m = new TreeMap<>();
        for (java.util.Map.Entry<TopicPartition, scala.collection.Seq<Object>> x : CollectionConverters.asJava(e.toOption().get()).entrySet())
          m.put(x.getKey().topic() + "-" + x.getKey().partition(), seq(x.getValue()));
        return m.toString();
      }
      case "log-dir": return "" + LogDirEventNotificationSequenceZNode$.MODULE$.decode(b).get();
      case "cluster": return ClusterIdZNode$.MODULE$.fromJson(b);
      case "feature": {
        FeatureZNode f = FeatureZNode$.MODULE$.decode(b);
        return f.version() + " " + f.status().id() + " " + new TreeMap<>(CollectionConverters.asJava(f.features()));
      }
      case "migration": {
        org.apache.kafka.metadata.migration.ZkMigrationLeadershipState m = MigrationZNode$.MODULE$.decode(b, 0, 0L);
        return m.kraftControllerId() + " " + m.kraftControllerEpoch() + " " + m.kraftMetadataOffset() + " " + m.kraftMetadataEpoch();
      }
      case "config": return new TreeMap<Object, Object>(ConfigEntityZNode$.MODULE$.decode(b)).toString();
      case "broker": {
        kafka.cluster.Broker k = BrokerIdZNode$.MODULE$.decode(1, b).broker();
        StringBuilder r = new StringBuilder();
        for (EndPoint e : CollectionConverters.asJava(k.endPoints()))
          r.append(e.listenerName().value() + " " + e.host() + " " + e.port() + ", ");
        return r + (k.rack().isDefined() ? k.rack().get() : "-");
      }
      default: throw new IllegalArgumentException(kind);
    }
  }
  static void decode() throws Exception {
    java.io.PrintStream out = new java.io.PrintStream(System.out, true, "UTF-8");
    java.io.BufferedReader in = new java.io.BufferedReader(new java.io.InputStreamReader(System.in, "UTF-8"));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] parts = line.split("\t", -1);
      String answer;
      try { answer = "read " + read(parts[0], Base64.getDecoder().decode(parts[1])); }
      catch (Throwable e) { answer = "unreadable " + e.getClass().getSimpleName(); }
      out.println(answer.replace("\n", " ").replace("\r", " "));
    }
  }
  public static void main(String[] a) throws Exception {
    if (a[0].equals("encode")) encode(); else decode();
  }
  @SuppressWarnings({"unchecked","rawtypes"})
  static void encode() throws Exception {
    out("controller", ControllerZNode$.MODULE$.encode(3, 1795250695635L, -1));
    out("epoch", ControllerEpochZNode$.MODULE$.encode(41));
    for (LeaderRecoveryState s : LeaderRecoveryState.values()) {
      LeaderAndIsr l = LeaderAndIsr.apply(2, 5, (scala.collection.immutable.List)ints(2,0,1), s, 7);
      out("state-"+s, TopicPartitionStateZNode$.MODULE$.encode(new LeaderIsrAndControllerEpoch(l, 9)));
    }
    for (int n : new int[]{0,1,3,5,11,12,13,23,24,30,47,48,100,400}) {
      java.util.Map<TopicPartition, ReplicaAssignment> m = new LinkedHashMap<>();
      for (int p=0;p<n;p++) m.put(tp("t",p), new ReplicaAssignment((scala.collection.Seq)ints(p%3,1), (scala.collection.Seq)(p%2==0?ints(5):ints()), (scala.collection.Seq)(p%3==0?ints(6,7):ints())));
      out("topic-"+n, TopicZNode$.MODULE$.encode(scala.Some.apply(Uuid.fromString("RgP6b1NBT1-Zq5bEXzBgKg")), CollectionConverters.asScala(m)));
    }
    java.util.Map<TopicPartition, ReplicaAssignment> m = new LinkedHashMap<>();
    m.put(tp("t",0), new ReplicaAssignment((scala.collection.Seq)ints(0), (scala.collection.Seq)ints(), (scala.collection.Seq)ints()));
    out("topic-noid", TopicZNode$.MODULE$.encode(scala.Option.empty(), CollectionConverters.asScala(m)));
    ArrayList<EndPoint> eps = new ArrayList<>();
    eps.add(new EndPoint("h", 9092, new ListenerName("PLAINTEXT"), SecurityProtocol.PLAINTEXT));
    eps.add(new EndPoint("i", 9093, new ListenerName("CLIENT"), SecurityProtocol.SSL));
    java.util.Map<String,SupportedVersionRange> fm = new java.util.HashMap<>(); fm.put("f", new SupportedVersionRange((short)1,(short)3));
    for (int v : new int[]{1,2,3,4,5}) for (String rack : new String[]{null,"r1"})
      out("broker-"+v+"-"+rack, BrokerIdZNode$.MODULE$.encode(v, "h", 9092, CollectionConverters.asScala(eps), -1, scala.Option.apply(rack), v==5&&rack!=null?Features.supportedFeatures(fm):Features.emptySupportedFeatures()));
    out("broker-noplain", BrokerIdZNode$.MODULE$.encode(5, null, -1, CollectionConverters.asScala(eps.subList(1,2)), 9999, scala.Option.apply(null), Features.emptySupportedFeatures()));
    Properties p = new Properties(); out("config-0", ConfigEntityZNode$.MODULE$.encode(p));
    String[] keys={"min.insync.replicas","unclean.leader.election.enable","retention.ms","cleanup.policy","segment.bytes","max.message.bytes","compression.type","a","b","c","d","e","f","g"};
    for(String k:keys){ p.setProperty(k,"v\u00e9\"\\\u001f"); out("config-"+p.size(), ConfigEntityZNode$.MODULE$.encode(p)); }
    out("config-change", ConfigEntityChangeNotificationSequenceZNode$.MODULE$.encode("topics/t"));
    LinkedHashSet<TopicPartition> s = new LinkedHashSet<>(); s.add(tp("t",0)); s.add(tp("u",12));
    out("isr-change", IsrChangeNotificationSequenceZNode$.MODULE$.encode(CollectionConverters.asScala(s)));
    out("preferred", PreferredReplicaElectionZNode$.MODULE$.encode(CollectionConverters.asScala(s).toSet()));
    out("log-dir", LogDirEventNotificationSequenceZNode$.MODULE$.encode(2));
    java.util.Map<TopicPartition, scala.collection.Seq<Object>> r = new LinkedHashMap<>(); r.put(tp("t",0),(scala.collection.Seq)ints(1,2)); r.put(tp("u",1),(scala.collection.Seq)ints(3));
    out("reassign", ReassignPartitionsZNode$.MODULE$.encode(CollectionConverters.asScala(r)));
    out("cluster", ClusterIdZNode$.MODULE$.toJson("x-y"));
    java.util.Map<String,Object> f = new LinkedHashMap<>();
    out("feature-2-0", FeatureZNode$.MODULE$.encode(new FeatureZNode(2, (FeatureZNodeStatus)FeatureZNodeStatus.Enabled$.MODULE$, CollectionConverters.asScala(f))));
    f.put("f", (short)3);
    out("feature-1-1", FeatureZNode$.MODULE$.encode(new FeatureZNode(1, (FeatureZNodeStatus)FeatureZNodeStatus.Disabled$.MODULE$, CollectionConverters.asScala(f))));
    out("feature-2-1", FeatureZNode$.MODULE$.encode(new FeatureZNode(2, (FeatureZNodeStatus)FeatureZNodeStatus.Enabled$.MODULE$, CollectionConverters.asScala(f))));
    out("migration", MigrationZNode$.MODULE$.encode(new org.apache.kafka.metadata.migration.ZkMigrationLeadershipState(3000, 4, 100L, 5, 17L, 6, 7, 8)));
  }
}
