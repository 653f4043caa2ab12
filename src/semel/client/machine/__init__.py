"""The client without I/O: machines that decide everything, and own no socket, no clock and no randomness.

The driver of a machine reports to it what happened (``connected``, ``received``, ``disconnected``, with the time),
carries out the actions that ``poll(now_ms)`` returns, and polls again no later than ``next_deadline_ms``. Times are
milliseconds of a monotonic clock.

    connection    connections to brokers: which can be asked now, requests and responses, metadata, coordinators
    producer      from a record to its batch, and from a batch to its acknowledgement
    transaction   the states of a transactional producer, and the requests to the coordinators in each
    consumer      where a partition is read from, what is fetched, which records are visible
    group         membership in a group, in both protocols, and the group's offsets
    admin         which broker is asked about each thing, and when it is asked again
"""
