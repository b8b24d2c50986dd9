"""`kcm backtest`: a recorded history as series, and what a rules file makes of them.

It may use `history`, `queries`, `cli` and `processes`.
"""
