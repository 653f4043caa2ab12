"""Security of a running broker: where it listens and how, who a connection belongs to, and what is written down of it.

Begin with docs/design/security.md. Nothing here is imported by a broker without a setting of security.
"""
