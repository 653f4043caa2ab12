"""The APIs, one file for each, named as in Kafka's protocol.

``routes.py`` above finds the handler by the name of its API; nothing else has to be registered. What several APIs share
stands beside them: ``ask_each.py`` (a request about several groups or transactions), ``offset_commit_partitions.py``
(OffsetCommit and TxnOffsetCommit), ``authorized_operations.py``, ``config_policy.py``.
"""
