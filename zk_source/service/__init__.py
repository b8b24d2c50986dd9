"""The watcher at work: carries out commands, and serves its own metrics.

It may use every room of the watcher.
"""
