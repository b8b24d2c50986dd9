"""`kcm up`: the whole pipeline on one machine, its processes and their restarts.

It may use `cli`, `stack`, `jars` and `processes`.
"""
