"""The watcher: reads a Kafka cluster's znodes from ZooKeeper and writes them to `kcm.changes`."""
