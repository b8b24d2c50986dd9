"""What all rooms of the exporter share: settings, its nouns, the reading status, request parameters, rendering, its own metrics.

It uses no other room of the exporter.
"""
