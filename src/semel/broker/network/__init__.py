"""Connections: bytes in, whole frames out, answers in the order of the requests, memory within budgets.

Open ``server.py`` first, then ``connection.py``.
"""
