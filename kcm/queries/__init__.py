"""Verbs that query the exporter: status, events, recommend, what-if, and the client of its API.

It may use `cli`.
"""
