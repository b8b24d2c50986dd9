"""The answers of /api/v1 and their OpenAPI document.

It may use `scrape`, `partitions`, `intake` and `core`.
"""
