"""ZooKeeper in memory: payloads as Kafka writes them, requests, commits and the tree.

It may import the model's `kafka`, `znodes` and `records`.
"""
