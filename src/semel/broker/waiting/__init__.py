"""Delayed operations: what waits until something is committed or fails, a deadline passes, or the client leaves.

Open ``delayed_operation.py`` first: the one protocol of waiting. ``deadlines.py`` has many deadlines on one timer.
"""
