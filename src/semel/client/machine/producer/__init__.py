"""A producer's decisions: from a record to its batch, and from a batch to its acknowledgement.

Open ``producer.py`` first; then ``admission.py`` (a record gets its partition and its batch) and ``sender.py`` (a batch
is sent until it is settled).
"""
