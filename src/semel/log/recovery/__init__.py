"""Recovery: loading logs after any crash, and truncating them.

Open ``startup.py`` first: one start of a data directory. ``opening.py`` opens all its partitions, ``loading.py`` one of
them. ``swap_recovery.py`` finishes a compaction that a crash interrupted, ``accepted_loss.py`` is
``semel log repair --accept-loss``.
"""
