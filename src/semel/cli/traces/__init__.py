"""Histories that are read from logs, as any client may read them: ``semel txn trace``, ``semel group trace``,
``semel producer list --window``. ``compaction_gaps.py`` says from when on such a history is whole."""
