"""Decides which watcher of a cluster leads, and until when it can prove that."""
