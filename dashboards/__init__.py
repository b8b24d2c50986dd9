"""Grafana boards and Prometheus rules as code: signals, from them panels and boards, and alerts.

They run when the chart's files are made, not in the pipeline. They may use the model's `insights`,
where the thresholds are.
"""
