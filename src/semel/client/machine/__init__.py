"""The client without I/O: machines that decide everything, and own no socket, no clock and no randomness.

The driver of a machine tells it what happened (``connected``, ``received``, ``disconnected``, with the time), asks it
what to do (``poll(now_ms)`` gives actions), and comes back no later than ``next_deadline_ms``. Times are milliseconds
of a clock that never goes back.

    connection    connections to brokers: which can be asked now, requests and answers, metadata, coordinators
    producer      from a record to its batch, and from a batch to its acknowledgement
    transaction   the states of a transactional producer, and what is asked of the coordinators in each
    consumer      where a partition is read from, what is fetched, which records are visible
    group         membership in a group, in both protocols, and the group's offsets
    admin         which broker is asked about each thing, and when it is asked again
"""
