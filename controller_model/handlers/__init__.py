"""What a fact changes, and which events it makes: one module for each noun.

A handler knows no source: no bytes, path, znode or zxid. It may use `tracking`, `state` and the
sub-packages below them.
"""
