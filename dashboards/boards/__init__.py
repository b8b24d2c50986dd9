"""Grafana boards: panels, rows and boards made of signals.

It may use `signals`.
"""
