"""Segments: a ``.log`` file, its three indexes and its checksums.

Open ``segment.py`` first. ``segment_list.py`` holds the segments of a partition, ``reading.py`` finds the bytes of a
Fetch in them, ``offset_index.py``, ``time_index.py`` and ``transaction_index.py`` are the indexes.
"""
