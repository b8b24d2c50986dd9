"""The running watcher: carries out commands, and serves its own metrics."""
