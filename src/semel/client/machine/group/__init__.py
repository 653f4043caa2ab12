"""Membership in a group, in both of Kafka's protocols, and the group's offsets. Open ``group.py`` first.

membership     what a consumer needs of either protocol, and what both do alike
classic        JoinGroup, SyncGroup, Heartbeat: a member assigns the partitions
consumer       ConsumerGroupHeartbeat (KIP-848): the broker assigns them
reassignment   partitions come and go, and the application is told, in an order that loses nothing
poll_liveness  whether the application still asks for records
subscription   which topics are wanted
member_context what a membership of either protocol works with
reactions      what every error code means, by request: the one table
coordinator    the broker to ask
commits        the offsets of the group: committed, and looked up
"""
