"""The live page: its files, its feed and its event stream.

It may use `api` and what stands below it.
"""
