"""`kcm forget`: remove a cluster that is no longer watched from the pipeline's topics.

It may use `cli`.
"""
