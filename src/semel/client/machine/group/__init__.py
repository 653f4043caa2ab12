"""Being a member of a group, in both of Kafka's protocols.

membership    what a consumer needs of either protocol, and what both do alike
classic       JoinGroup, SyncGroup, Heartbeat: a member assigns the partitions
consumer      ConsumerGroupHeartbeat (KIP-848): the broker assigns them
handover      partitions come and go, and the application is told, in an order that loses nothing
presence      whether the application still asks for records
subscription  which topics are wanted
reactions     what every error code means, by request: the one table
coordinator   the broker to ask
"""
