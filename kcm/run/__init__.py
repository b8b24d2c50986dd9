"""What runs the monitor: each part as a verb, their settings (`kcm config`), and all on one machine (`kcm up`).

It may use `queries`, `servers` and `cli`.
"""
