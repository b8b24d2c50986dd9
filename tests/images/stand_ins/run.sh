#!/bin/sh
# A node of Kafka from its KAFKA_ variables. `run zookeeper`: the ZooKeeper of these jars. `run FILE`: a broker from a configuration.
set -eu
export CLASSPATH='/opt/kafka/libs/*'
small="-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
case ${1-} in
zookeeper)
  mkdir /tmp/zookeeper
  printf '%s\n' dataDir=/tmp/zookeeper clientPort=2181 tickTime=500 admin.enableServer=false >/tmp/zoo.cfg
  exec java -Xmx128m $small org.apache.zookeeper.server.quorum.QuorumPeerMain /tmp/zoo.cfg
  ;;
'')
  # It also formats the log directories, which fails for a node that starts again.
  said=$(java -Xmx64m kafka.docker.KafkaDockerWrapper setup --default-configs-dir /etc/kafka/docker \
    --mounted-configs-dir /mnt/shared/config --final-configs-dir /opt/kafka/config 2>&1) ||
    case $said in *"already formatted"*) ;; *) echo "$said" >&2; exit 1 ;; esac
  set -- /opt/kafka/config/server.properties
  ;;
esac
exec java ${KAFKA_HEAP_OPTS:--Xmx256m} $small kafka.Kafka "$1"
