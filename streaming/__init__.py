"""The fold: reads kcm.changes, folds it through the model, and writes kcm.views and kcm.events, on Spark.

Spark's session, the query and its restarts, the state of each cluster and its bytes, the checkpoint
and the lineage that it belongs to, and the fold's metrics. It may import `pipeline` and
`controller_model`, and nothing of the watcher or the exporter.
"""
