"""Faults on real servers under steady changes: each part is killed, stopped, paused, cut off, or loses its disk.

The rule: a cell is data, a part and a fault; one runner plays all cells. What is shown is compared
with each znode in ZooKeeper, so a figure that was stale while the status was `live` is counted,
however short the time.
"""
