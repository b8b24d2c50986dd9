"""The catalogue of metrics about watched clusters.

One entry per metric: the exporter renders it, dashboards query it, docs list it. It may use
`insight` and the sub-packages below it.
"""
