"""Real servers as child processes: ZooKeeper, Kafka, Prometheus.

It may use `jars` and `processes`.
"""
