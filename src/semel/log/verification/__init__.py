"""Verification (``semel log verify``): which files of a data directory are sound. Nothing is changed.

Open ``directory.py`` first: it checks a data directory. ``partition.py`` checks one partition's folder, ``walk.py`` one
segment, batch by batch; ``indexes.py`` and ``producers.py`` compare the derived files with the batches.
"""
