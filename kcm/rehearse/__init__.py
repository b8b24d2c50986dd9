"""`kcm rehearse`: what the controller would do if operators did this, now or at any place of the log.

It may use `history`, `queries` and `cli`.
"""
