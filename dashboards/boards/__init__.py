"""Grafana dashboards: panels, rows and dashboards made of signals.

It may use `signals`.
"""
