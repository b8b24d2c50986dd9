"""The watcher: reads a Kafka cluster's znodes from ZooKeeper and writes them to `kcm.changes`.

It may use `pipeline` and the model's `kafka`, `znodes` and `records`; never Spark or the exporter.
"""
