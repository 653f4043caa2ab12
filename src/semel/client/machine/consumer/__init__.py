"""A consumer's decisions: where to start, what to fetch, which records are visible.

Open ``consumer.py`` first, then ``fetcher.py``.
"""
