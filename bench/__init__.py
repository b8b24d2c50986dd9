"""Measurements: figures that the documents quote, each from one command.

The rule: a benchmark measures and prints; it asserts only that it measured what it says.
"""
