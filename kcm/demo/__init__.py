"""`kcm demo`: a story of failures on a real cluster, compared with the truth step by step.

It may use every room of `kcm`; none uses it.
"""
