"""The log on Kafka as every source writes it: one writer at a time, in order, each record once.

A source gives its records as bytes with a position, completes the watcher's beats, and stands for
election (`Elector`). It begins with `run_terms`; each term makes a `LogWriter`. Nothing here knows a
source's records or its connection.
"""
