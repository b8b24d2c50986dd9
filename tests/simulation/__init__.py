"""A deterministic simulation of the whole line: one seed gives the cluster, the faults, everything.

The watcher's decisions, the model, the processor and the exporter's stores are the real ones; only
sockets, Kafka, Spark and time are played. `python -m tests.simulation 0+300` runs seeds 0 to 299.
"""
