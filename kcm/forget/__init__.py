"""`kcm forget`: a cluster that is watched no more, taken back from the pipeline's topics.

It may use `cli`.
"""
