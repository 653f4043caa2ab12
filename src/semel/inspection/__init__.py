"""What can be found out about a cluster over the wire, as values: for the command ``semel`` and for the console.

    trace             the life of a transactional id, from the logs; group_trace: the generations of a group
    marked_records    records with what they are: data, open, aborted, control
    producer_window   the last batches of a producer, with which a partition recognises a repetition
    group_offsets     a group's offsets with its lag; where a reset would take them
    pipeline_batches  what a Spark pipeline leaves on the wire; pipeline_note: its note beside an offset
    lag               how many records a read_committed reader has still to read
    termination       ends the open transaction of a transactional id
    compaction_gaps   from when on the history in a compacted log is whole
    log_reading       a partition, batch by batch; offsets: where it begins and ends
    internal_records  the records of the internal topics, in words; times: how times are written

Everything here is an ordinary client: it works with Semel and with Apache Kafka. Nothing here prints.
"""
