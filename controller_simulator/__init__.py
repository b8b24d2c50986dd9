"""Kafka's controller in small: operations go in, the real controller's znode writes come out.

A pure package like `controller_model`: no I/O, clock or randomness of its own. It may use the
model's `kafka`, `znodes` and `records`.
"""
