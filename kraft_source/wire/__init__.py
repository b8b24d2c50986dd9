"""Kafka's protocol as far as an observer needs it: messages, record batches, metadata records, one connection to a controller."""
