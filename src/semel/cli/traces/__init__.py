"""Histories that are read from logs, as any client may read them: ``semel group trace`` and ``semel producer list
--window``. That of a transactional id, which the console shows too, is in ``semel.inspection.trace``."""
