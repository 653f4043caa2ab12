"""Recovery: loading logs after any crash, and truncating them.

Open ``loading.py`` first: one partition. ``opening.py`` opens all partitions of a data directory, ``swap_recovery.py``
finishes a compaction that a crash interrupted, ``accepted_loss.py`` is ``semel log repair --accept-loss``.
"""
