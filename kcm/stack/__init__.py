"""Real ZooKeeper, Kafka and Prometheus servers as child processes for demo, tests and benchmarks."""
