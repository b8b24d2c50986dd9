"""What all verbs share: options from settings, exit codes, tables, times and names as text.

It uses no other sub-package of `kcm`.
"""
