"""The topics' records: `kcm replay` and `kcm bundle` read a recorded log, `kcm forget` deletes a cluster's records.

It may use `queries` and `cli`.
"""
