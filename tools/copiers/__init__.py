"""Programs that copy a topic exactly once, one for each client library, each as that library's documentation says.

What they have in common is what they are told (``task.Task``) and what they tell: after every commit the number of
records copied so far, on a line of its own. Partition n goes to partition n, in transactions that hold the group's
offsets. A copier starts from the committed offsets, ends with code 0 when all is copied, and with any other when its
library says, or leaves no other choice than, that this producer is of no use any more.
"""
