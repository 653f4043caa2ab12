"""The replicas of a partition: what a leader may count as replicated, and what a follower does with a response. Pure.

``replica_set`` is the leader's side: progress of the followers, in-sync set, high watermark, confirmation. ``follower``
is the other side: what to fetch, what to truncate, what to append. The leaders themselves are chosen by
``metadata/election.py``. Open ``replica_set.py`` first, and ``docs/design/replication.md`` for why it is safe.
"""
