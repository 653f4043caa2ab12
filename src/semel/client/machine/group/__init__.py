"""Membership in a group, in both of Kafka's protocols, and the group's offsets. Open ``group.py`` first.

membership     the interface of either protocol for the consumer, and what both do alike
classic        JoinGroup, SyncGroup, Heartbeat: a member assigns the partitions
consumer       ConsumerGroupHeartbeat (KIP-848): the broker assigns them
reassignment   partitions are assigned and revoked, with the application's callbacks, in an order that loses nothing
poll_liveness  whether the application still polls
subscription   which topics are subscribed to
member_context the objects that a membership of either protocol works with
reactions      what every error code means, by request: the one table
coordinator    the broker to ask
commits        the offsets of the group: committed, and fetched
"""
