"""The sources: each turns its own records into facts, and owns what orders and proves them.

They do not know each other. `source_of` alone knows them all: `history`, `streaming` and `kcm` ask it for a cluster's
source, and the fold takes any.
"""
