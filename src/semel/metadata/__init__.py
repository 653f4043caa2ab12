"""What exists in the cluster: brokers, topics, partitions and their leaders, settings.

``image`` is the immutable picture that all requests read, ``controller`` decides how it changes and
``election`` who leads, ``cluster`` writes the change to a ``store`` and shows the new image. Open ``image.py`` first,
then ``controller.py``.
"""
