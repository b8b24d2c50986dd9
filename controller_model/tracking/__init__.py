"""What events and totals add up to over time: incidents, recommendations, pending writes.

It may use `state` and the sub-packages below it.
"""
