"""Programs that are a member of a group, one for each client library, written as that library's documentation says.

All have the same input (``role.Role``) and the same output, a line for each event: assigned and revoked partitions,
records before they are committed, offsets after they are committed. A member with a target copies records in
transactions that contain the group's offsets, partition n to partition n. A member without one commits the offsets of
what it has read, and waits for the response. It ends with code 0 after SIGTERM, when it has left the group, and with
another code when its library raises an error after which it cannot continue.
"""
