"""The sources: each turns its own records into facts, and owns what orders and proves them.

They do not know each other, and nothing but `fold` knows them.
"""
