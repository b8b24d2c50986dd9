"""ZooKeeper in memory: payloads as Kafka writes them, requests, commits, the tree and its log.

It may use the model's `kafka`, `znodes` and `records`.
"""
