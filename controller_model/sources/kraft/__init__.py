"""KRaft's metadata log as a source: its order and its proof, and what each of its records states.

What is held (`state`), which records continue it (`order`), how slices and heartbeats are taken (`source`) and
snapshots (`snapshots`), what proves it (`reconciliation`), and what records state (`reading`, `partitions`, `topics`,
`brokers`, `quorum`).
"""
