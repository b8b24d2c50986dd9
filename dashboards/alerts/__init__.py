"""Alerting and recording rules made of signals.

It may use `signals`.
"""
