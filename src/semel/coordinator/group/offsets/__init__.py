"""Committed offsets of groups: those that are stable, those that a transaction has pending, and their expiry.

Open ``offset_shard.py`` first: OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete.
"""
