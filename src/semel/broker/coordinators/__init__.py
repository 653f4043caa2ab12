"""The runtime of the coordinators: loads, runs and unloads shards, expires ids and offsets, and delivers markers.

Open ``shard_runtime.py`` first: it appends the records that a shard decides, and answers once they are committed.
``coordinator.py`` has all shards of one internal topic, ``coordinators.py`` the two coordinators of a broker.
"""
