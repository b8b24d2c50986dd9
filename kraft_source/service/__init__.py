"""The watcher of a KRaft cluster as it runs: what an observer releases becomes records of `kcm.changes`."""
