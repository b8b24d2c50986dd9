"""Signals: what boards show and alerts watch, with its thresholds.

It may use the model's `insights`; tests hold the metrics it names against the model's catalogue.
"""
