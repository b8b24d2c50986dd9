"""Prometheus alerting rules made of signals.

It may use `signals`.
"""
