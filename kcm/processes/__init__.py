"""Child processes: how they start, become ready, are guarded and end.

It uses no other sub-package of `kcm`.
"""
