"""Grafana boards and Prometheus rules as code: signals, from them panels and boards, and alerts."""
