"""`kcm rehearse`: what the controller would do after given operations, now or at any place of the log.

It may use `history`, `queries` and `cli`.
"""
