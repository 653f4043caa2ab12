"""The cluster's metadata: brokers, topics, partitions and their leaders, configs.

``image`` is the immutable value that all requests read. ``controller`` decides changes of topics, ``election`` elects
leaders, and ``cluster`` commits changes to a ``store`` and then replaces the image. ``security`` has ACLs, users and
quotas, ``zookeeper`` the store of several brokers. Open ``image.py`` first, then ``controller.py``.
"""
