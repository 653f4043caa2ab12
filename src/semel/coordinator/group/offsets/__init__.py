"""Committed offsets of groups: those that are stable, those that a transaction has pending, and expiry.

Open ``offset_shard.py`` first.
"""
