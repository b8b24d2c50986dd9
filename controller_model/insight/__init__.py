"""Advice over views and events alone: losses, rebalances, racks, flapping, pending writes, in words.

Every function is pure and does not depend on the fold. It may use `kafka` and `records`.
"""
