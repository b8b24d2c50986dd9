"""The command line: one sub-package for each family of verbs.

Verbs reach the parts through settings and topics. A sub-package imports only those below it.
"""
