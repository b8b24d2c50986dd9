"""Faults on real servers: each part killed, stopped, paused, cut off or robbed of its disk, under steady changes.

The rule: a cell is data, a part and a fault; one runner plays it. What is shown is held against what ZooKeeper
itself says of each znode, so a figure that was stale while the status said `live` is counted, however short.
"""
