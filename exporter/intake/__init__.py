"""The stores of complete views and events of each cluster, made from Kafka's records.

It may use `core`.
"""
