"""The live page: its files, its feed and its event stream.

It may use `api` and the folders below that.
"""
