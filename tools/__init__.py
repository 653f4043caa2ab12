"""What the repository's own commands are made of: environment, Apache Kafka as a peer, servers as processes, checkers.

Nothing in here is shipped to users, and nothing in ``semel`` imports it. Tests, campaigns and benchmarks do.
"""
