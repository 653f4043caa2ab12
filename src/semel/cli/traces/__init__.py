"""Histories that are read from logs, as any client may read them: what ``semel group trace`` prints, and ``semel
producer list --window``. What the console shows too is read in ``semel.inspection``: ``trace``, ``group_trace``."""
