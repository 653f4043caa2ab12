"""Requests that wait: what they wait for ends, a deadline passes, or the client leaves.

Open ``deadlines.py`` first; ``pieces.py`` is one request that waits in several pieces.
"""
