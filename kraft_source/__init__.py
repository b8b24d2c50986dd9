"""The watcher of KRaft clusters: reads a cluster's metadata log from its controllers, as an observer that no quorum sees."""
