"""A rehearsal: what Kafka's controller would do if operators did this, step by step, from a cluster's views.

Pure, like the simulator that it uses: no I/O, clock or randomness. It may use
`controller_simulator` and the model's `kafka`, `znodes`, `records` and `insights`.
"""
