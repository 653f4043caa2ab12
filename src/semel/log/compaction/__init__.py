"""Compaction: of all records with the same key a log keeps the last one (``cleanup.policy=compact``).

Open ``cleaner.py`` first: it is what the broker calls. ``cleanable.py`` decides what is compacted and when,
``cleaning.py`` is one pass over one log, ``batch_filter.py`` filters one batch, ``swap.py`` replaces the old segments.
The design, and what a crash leaves behind: docs/design/compaction.md.
"""
