"""Groups of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Open ``groups.py`` first. A handler works on a ``draft.py`` of the group. ``joining.py`` and ``rebalance.py`` are the
two halves of a rebalance.
"""
