"""Signals: the queries that dashboards show and alerts evaluate, with their thresholds.

It may use the model's `insights`; tests compare the metrics that it names with the model's catalogue.
"""
