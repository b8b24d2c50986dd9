"""Child processes and servers: how they start, become ready, are guarded and end; the jars that they need.

It uses no other sub-package of `kcm`.
"""
