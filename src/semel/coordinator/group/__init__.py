"""The group coordinator: one partition of ``__consumer_offsets``.

Open ``shard.py`` first: one method for each request. A group is of one kind at a time, ``classic/`` (JoinGroup,
SyncGroup, Heartbeat) or ``consumer/`` (KIP-848); ``conversion.py`` turns one into the other. ``offsets/`` holds what
groups have committed.
"""
