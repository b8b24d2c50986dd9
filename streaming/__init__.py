"""The fold: kcm.changes through the model to kcm.views and kcm.events, on Spark."""
