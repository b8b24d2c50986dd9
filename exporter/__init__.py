"""The exporter: reads views and events from Kafka and serves metrics, an HTTP API and a live page.

It uses `pipeline` and the model's `kafka`, `records`, `insights` and `metrics`; never Spark or
ZooKeeper.
"""
