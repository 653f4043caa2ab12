"""Fetch: sessions, reading within the byte limits, and fetches that wait for records.

Open ``requests/handlers/fetch.py`` first, then ``reading.py``.
"""
