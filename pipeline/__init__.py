"""What the watcher, the fold and the exporter share besides records: settings, topics, running."""
