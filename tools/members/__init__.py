"""Programs that are one member of a group each, one for each client library, each as that library's documentation says.

What they have in common is what they are told (``role.Role``) and what they tell, on lines of their own: partitions
that come and go, records before they are committed, offsets once they are. A member that is given a target copies in
transactions that hold the group's offsets, partition n to partition n; one without commits what it has read, and waits
for the answer. It ends with code 0 when it is asked to (SIGTERM) and has left the group, and with any other when its
library raises what it cannot go on from.
"""
