"""Reads the state and the history of a cluster over the Kafka protocol, as values: for the command ``semel`` and for
the console.

    trace             the history of a transactional id, from the logs; group_trace: the generations of a group
    marked_records    records with their kind: data, open, aborted, control
    producer_window   the last batches of a producer, by which a partition recognises a batch that is sent again
    group_offsets     a group's offsets with its lag; where a reset would take them
    pipeline_batches  the notes that a Spark pipeline has committed; pipeline_note: its note beside an offset
    lag               how many records a read_committed consumer still has to read
    termination       ends the open transaction of a transactional id
    compaction_gaps   since when the history in a compacted log is complete
    log_reading       a partition, batch by batch; offsets: where it begins and ends
    internal_records  the records of the internal topics, decoded; times: times as texts

All of this uses ordinary client requests: it works with Semel and with Apache Kafka. Nothing here prints.
"""
