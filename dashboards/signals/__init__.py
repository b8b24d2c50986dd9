"""Signals: what boards show and alerts watch, with its thresholds.

It uses the model's catalogue of metrics.
"""
