"""Modules for the repository's own commands: environment, Apache Kafka as a peer, servers as processes, checkers.

Nothing in this package is shipped to users, and nothing in ``semel`` imports it. Tests, campaigns and benchmarks do.
"""
