"""Kafka's znodes: which paths there are, and what their payloads say.

Decoders return what Kafka wrote or raise; they never guess. It may use `kafka` and `records`.
"""
