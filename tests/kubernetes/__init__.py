"""The chart on a real Kubernetes of one node: `python -m tests.kubernetes`."""
