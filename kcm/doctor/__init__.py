"""`kcm doctor`: checks of the machine, ZooKeeper, Kafka and the exporter.

It may use `queries`, `cli` and `servers`.
"""
