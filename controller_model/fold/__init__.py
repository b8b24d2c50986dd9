"""The fold: replay of changes, control records of the log, and projection to views.

It may use every sub-package of this package except `history`.
"""
