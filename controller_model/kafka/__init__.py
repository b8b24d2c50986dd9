"""Kafka's own nouns and rules: ids, assignments, elections, states, coordinators.

Nothing here is specific to kcm. It uses no other sub-package.
"""
