"""Semel and Apache Kafka side by side: the same machine, the same client, the same run.

``python -m benchmarks`` (or ``make bench``) measures; a figure of one broker means little on a shared machine, so what
is stated in public is the ratio of two that were measured in turn.
"""
