"""Replicas of partitions: followers copy from leaders, and leaders say who is in sync. See docs/design/replication.md.

Open ``replicas.py`` first: what this broker leads and follows. ``follower_sessions.py`` is the leader's side of the
copying, ``copier.py`` the follower's; ``in_sync_changes.py`` commits changes of in-sync sets, ``elections.py`` those of
leaders. What is decided is in ``semel.replication`` and ``semel.metadata.election``, which know neither sockets nor
clocks. A cluster of one has none of it.
"""
