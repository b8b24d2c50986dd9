"""The log on Kafka as every source writes it: one writer at a time, in order, each record once, with signs of life.

A source gives: records with a `Position` as bytes, what it knows of how far it has read, and a lease.
The package knows no source: neither its records' content nor its connection. It may import
`pipeline` and the model's `kafka` and `records`.
"""
