"""Grafana dashboards and Prometheus rules as code: signals, the panels and dashboards made of them, and alerts.

This code runs when the chart's files are made, not in the pipeline. It may use the model's `insights`,
which has the thresholds.
"""
