"""Simulates Kafka's controller: operations go in, the real controller's znode writes come out.

A pure package like `controller_model`: no I/O, clock or randomness of its own. It may import the
model's `kafka`, `znodes` and `records`. Begin at `cluster.simulator.Simulator`, or at
`cluster.loading.load_cluster` for an existing cluster. `cluster.operations` lists what can be done
to a cluster, `cluster.settings` how its brokers are set, and `commits` is what it wrote.
"""
