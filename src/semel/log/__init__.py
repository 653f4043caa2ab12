"""The log: the records of one partition on one disk, and all partitions of a broker in one data directory.

Open ``partition_log.py`` first (append, read, and the five offsets), then ``directory.py`` (all logs of a broker). The
subjects: ``segments`` (files and indexes), ``producers`` (sequences and open transactions), ``durability`` (group
commit, journal, checkpoints), ``recovery`` (loading after a crash), ``compaction``, ``verification`` (``semel log
verify``). The design is in docs/design/log.md.
"""
