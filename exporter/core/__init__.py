"""What all folders of the exporter share: settings, snapshots, reading status, request parameters, rendering, its own metrics.

It uses no other folder of the exporter.
"""
