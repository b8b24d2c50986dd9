"""Kafka's controller as a pure library: its znodes, its rules, and a replay of what ZooKeeper reports.

No module here does I/O, reads a clock, draws a random number or logs. What the cluster does is
data; only a mistake of ours raises.
"""
