"""`kcm maintenance`: planned work."""
