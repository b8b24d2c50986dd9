"""`kcm backtest`: evaluate a rules file on a recorded history.

It may use `history`, `queries`, `cli` and `servers`.
"""
