"""Kafka's controller: its memory, state machines, lifecycle and requests, and the broker's receiving side.

It makes decisions, and returns writes and requests as data. It may import `zookeeper`.
"""
