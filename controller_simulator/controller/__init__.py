"""Kafka's controller: its memory, state machines, lifecycle and requests, and the broker's receiving side.

It decides and hands writes and requests over as data. It may use `zookeeper`.
"""
