"""Connections of clients: receiving frames, sending answers in the order of the requests, and limits on memory.

Open ``server.py`` first, then ``connection.py``.
"""
