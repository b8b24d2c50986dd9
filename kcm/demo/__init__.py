"""`kcm demo`: break a real cluster step by step and compare the monitor with the truth.

It may use every sub-package of `kcm`; none uses it.
"""
