"""The HTTP edge of every part: TLS, passwords, names of hosts, limits for clients.

It knows no page: a part gives it an application.
"""
