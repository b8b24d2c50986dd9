"""The fold: replay of changes, control records of the log, and projection to views.

It may use every room of this package but `history`.
"""
