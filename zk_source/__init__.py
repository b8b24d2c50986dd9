"""The watcher: reads a Kafka cluster's znodes from ZooKeeper and writes them to `kcm.changes`.

It may import `pipeline` and the model's `kafka`, `znodes` and `records`, but not Spark or the
exporter.
"""
