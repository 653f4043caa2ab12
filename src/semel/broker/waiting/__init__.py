"""Delayed operations: they wait until records are committed or fail, a deadline passes, or the client leaves.

Open ``delayed_operation.py`` first: the protocols of delayed operations. ``deadlines.py`` has their deadlines.
"""
