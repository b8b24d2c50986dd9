"""From Kafka's records to complete views and events of each cluster.

It may use `core`.
"""
