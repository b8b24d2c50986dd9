"""What the fold holds of a cluster: the control plane, topics and their totals, and all of it as bytes.

It may use `facts` and the sub-packages below it.
"""
