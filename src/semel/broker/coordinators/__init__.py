"""The runtime of the coordinators: shards are loaded, run, expired, and their markers delivered.

Open ``shard_runtime.py`` first: it appends what a shard decides and answers once that is committed.
"""
