"""Histories that are read from logs, as any client may read them: how ``semel group trace`` prints what
``semel.inspection`` has read."""
