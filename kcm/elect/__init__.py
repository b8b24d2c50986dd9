"""`kcm elect`: preferred elections, run in chunks and watched to their effect.

It may use `queries` and `cli`.
"""
