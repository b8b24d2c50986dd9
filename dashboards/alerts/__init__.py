"""Alerting rules made of signals.

It may use `signals`.
"""
