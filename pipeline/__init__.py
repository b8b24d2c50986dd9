"""What the watcher, the fold, the exporter and the command line share besides records.

Settings in layers, the three topics and how they are made, one reader of their records, the clock,
Java, exit codes, logs and a part's own /metrics. It may use nothing of the parts.
"""
