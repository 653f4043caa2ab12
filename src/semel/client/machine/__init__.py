"""The client without I/O: machines that decide everything, and own no socket, no clock and no randomness.

The driver of a machine tells it what happened (``connected``, ``received``, ``disconnected``, with the time), asks it
what to do (``poll(now_ms)`` gives actions), and comes back no later than ``next_deadline_ms``. Times are milliseconds
of a clock that never goes back.

    producer      Producer's decisions, put together from the rest
    consumer      Consumer's decisions
    admin         Admin's decisions: what to ask whom, when to ask again, and when to believe it
    connections   which broker can be asked now; requests and their answers; reconnecting; traffic: counted
    metadata      who leads which partition
    intake        a record finds its partition, or waits: for room, or for its topic to be known
    accumulator   records become batches; sender: batches become requests, and are sent until they are settled
    sequences     the numbers that make a batch unique
    transaction   the eight states and what is asked of the coordinator in each
    fetcher       what a consumer reads, and from where
    beginnings    where a partition begins to be read, and where it goes back to
    group         being a member of a group, in both protocols; commits: its offsets
"""
