"""Printing of the histories that ``semel.inspection`` has read from logs: ``semel group trace``."""
