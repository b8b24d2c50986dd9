"""`kcm elect`: run preferred elections in chunks and watch their effect.

It may use `queries` and `cli`.
"""
