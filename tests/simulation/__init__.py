"""A deterministic simulation of the whole pipeline: one seed determines the cluster, the faults, everything.

The watcher's decisions, the model, the processor and the exporter's stores are the shipped code;
only sockets, Kafka, Spark and time are simulated. `python -m tests.simulation 0+300` runs seeds 0
to 299.
"""
