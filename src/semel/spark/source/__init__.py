"""The source: the Spark data source "semel", which reads topics as streaming and batch DataFrames.

Open ``source.py`` first. ``options.py`` and ``offsets.py`` parse what users set, ``splits.py`` divides the offsets of a
micro-batch among tasks, ``reading.py`` reads the records.
"""
