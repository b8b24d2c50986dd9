"""Kafka's controller as a pure library: its znodes, its rules, and a replay of what ZooKeeper reports.

No module here does I/O, reads a clock, draws a random number or logs. Whatever a cluster does is
data and raises nothing; only a bug in this package raises.
"""
