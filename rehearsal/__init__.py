"""A rehearsal: what a controller in ZooKeeper mode does when operators perform these steps, from a cluster's views.

Pure, like the simulator that it uses: no I/O, clock or randomness.
"""
