"""The running watcher: carries out commands, and serves its own metrics.

It may import every subpackage of the watcher.
"""
