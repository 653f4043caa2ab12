"""Segments: a ``.log`` file and its three indexes. Open ``segment.py`` first."""
