"""Durability: group commit, the journal, and checkpoints.

Open ``commit.py`` first: one sync for all partitions that were written. ``journal.py`` is the file it writes,
``journal_replay.py`` reads it after a crash. ``checkpointer.py`` decides when a checkpoint runs, ``checkpointing.py``
carries it out, ``checkpoints.py`` and ``partition_checkpoint.py`` are the formats of the files.
"""
