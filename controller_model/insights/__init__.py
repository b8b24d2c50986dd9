"""Advice over views and events alone: losses, rebalances, racks, flapping, writes due, in words.

Every function is pure and does not depend on the fold. It may use `kafka` and `records`.
"""
