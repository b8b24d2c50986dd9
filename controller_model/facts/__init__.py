"""Statements about a cluster in Kafka's terms: what sources make of their records, and all that handlers know.

It may use `records` and `kafka`.
"""
