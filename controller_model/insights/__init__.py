"""Advice over views alone: losses, rebalances, standing risks, flapping, writes due.

Every function is pure and knows nothing of the fold. It may use `kafka` and `records`.
"""
