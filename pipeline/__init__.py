"""What the watcher, the fold, the exporter and the command line share in addition to the records.

Settings in layers, the three topics and how they are created, one reader of their records, the
clock, Java, exit codes, logs and a part's own /metrics. It may import nothing of the parts.
"""
