"""The search of partitions and topics: filters, pages, the worst topics, replicas in one rack.

It may use `core` and `intake`.
"""
