"""Security of a running broker: its listeners, TLS, the authentication of clients, and the audit log.

Begin with docs/design/security.md; open ``listeners.py`` first. A broker without a security setting imports nothing of
this package.
"""
