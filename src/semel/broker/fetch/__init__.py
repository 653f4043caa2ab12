"""Fetch requests: sessions, reading within the byte limits, and requests that wait for records.

Open ``requests/handlers/fetch.py`` first, then ``reading.py``.
"""
