"""The HTTP server and the exporter as a part that starts and stops.

It may use every folder of the exporter.
"""
