"""The terminal: tables, JSON, progress, passwords, times, signals.

Open ``output.py`` first.
"""
