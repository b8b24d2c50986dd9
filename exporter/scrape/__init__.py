"""The bytes of /metrics and /metrics/partitions.

A scrape joins what was rendered when a cluster changed. It may use `partitions`, `intake` and
`core`.
"""
