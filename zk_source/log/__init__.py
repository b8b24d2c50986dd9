"""The log on Kafka: publishes the watcher's changes, and reads back what it needs.

It may import `wire` and `watcher`.
"""
