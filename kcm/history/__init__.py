"""`kcm replay` and `kcm bundle`: a recorded log, replayed and packed.

It may use `queries` and `cli`.
"""
