"""ZooKeeper as a source: Kafka's znodes, their order and proofs, and every inference that they make necessary.

Which paths there are and what their payloads say (`znode_kinds`, `payloads`, `config_payloads`), what each
states (`znodes`, `controller`, `brokers`), what is inferred (`election_count`, `election_inference`,
`brokers`, `pending_writes`), and what orders and proves it (`stats`, `proofs`).
"""
