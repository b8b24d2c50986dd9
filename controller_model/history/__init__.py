"""A recorded log outside of the pipeline: its replay, snapshots, and what differs between them.

It may use every sub-package of this package.
"""
