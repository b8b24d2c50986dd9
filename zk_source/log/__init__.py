"""The log on Kafka: what the watcher publishes, and what it reads back.

It may use `wire` and `watcher`.
"""
