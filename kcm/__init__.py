"""The command line: one room for each family of verbs.

Verbs meet the parts in settings and on the topics; no room imports one that stands above it.
"""
