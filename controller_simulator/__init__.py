"""Simulates Kafka's controller in ZooKeeper mode: operations go in, its znode writes come out.

KRaft is not simulated. A pure package like `controller_model`: no I/O, clock or randomness of its own. Begin at `cluster.simulator.ZooKeeperModeSimulator`, or at
`cluster.loading.load_cluster` for an existing cluster. `cluster.operations` lists what can be done
to a cluster, `cluster.settings` how its brokers are set, and `commits` is what it wrote.
"""
