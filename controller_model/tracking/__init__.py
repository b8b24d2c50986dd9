"""What events and totals add up to over time: incidents, recommendations, writes due.

It may use `state` and the sub-packages below it.
"""
