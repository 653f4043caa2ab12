"""Copies of a partition on several brokers: what a leader may count, and what a follower does with an answer. Pure.

``replica_set`` is the leader's side: progress of the followers, in-sync set, high watermark, confirmation. ``follower``
is the other side: what to fetch, what to truncate, what to append. The leaders themselves are chosen by
``metadata/election.py``. Open ``replica_set.py`` first, and ``docs/design/replication.md`` for why it is safe.
"""
