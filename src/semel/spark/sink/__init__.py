"""The sink: writes the rows of a micro-batch to topics within one transaction.

Open ``stage.py`` first: it runs the tasks. ``row_partitioning.py`` chooses partition and task of each row,
``writing.py`` sends record batches, ``fused.py`` is the path for stateless transforms that bypasses Java.
"""
