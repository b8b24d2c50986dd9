"""The HTTP server and the exporter as a part that starts and stops.

It may use every room of the exporter.
"""
