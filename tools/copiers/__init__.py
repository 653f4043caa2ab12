"""Programs that copy a topic exactly once, one for each client library, written as the library's documentation says.

All have the same input (``task.Task``) and the same output: after every commit a line with the number of records copied
so far. Partition n is copied to partition n, in transactions that contain the group's offsets. A copier starts from the
committed offsets. It ends with code 0 when everything is copied, and with another code when the error of its library is
fatal or the producer cannot be used any more.
"""
