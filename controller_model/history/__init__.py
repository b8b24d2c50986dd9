"""A recorded log outside of the pipeline: replayed, as snapshots, and compared.

It may use every room of this package.
"""
