"""The live page: its files, and the answers that it polls.

It may use `api` and the folders below that.
"""
