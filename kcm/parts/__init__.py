"""The parts as verbs: watch, stream, export, and config.

It may use `cli` and `jars`.
"""
