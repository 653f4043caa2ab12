"""The runtime of the coordinators: shards are loaded, run and unloaded, expire things, and have their markers written.

Open ``shard_runtime.py`` first: it appends what a shard decides, and answers once that is committed. ``coordinator.py``
is all shards of one internal topic, ``coordinators.py`` the two coordinators of a broker.
"""
