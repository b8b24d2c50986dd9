"""Kafka's own nouns and rules: ids, assignments, elections, states, coordinators.

Nothing of ours lives here. It uses nothing else of this package.
"""
