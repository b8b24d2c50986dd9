"""What events and totals add up to over time: incidents, recommendations, writes due.

It may use `state` and what stands below it.
"""
