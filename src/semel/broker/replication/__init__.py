"""Replication: followers copy from leaders, and leaders propose the in-sync sets. See docs/design/replication.md.

Open ``replicas.py`` first: what this broker leads and follows. ``follower_sessions.py`` is the leader's side of the
copying, ``copier.py`` the follower's; ``in_sync_changes.py`` commits changes of in-sync sets, ``elections.py`` those of
leaders. The decisions are in ``semel.replication`` and ``semel.metadata.election``, which use neither sockets nor
clocks. A cluster of one broker uses nothing of this package.
"""
