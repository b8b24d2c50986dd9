"""Verbs that ask the exporter: status, events, recommend, what-if, and the client of its API.

It may use `cli`.
"""
