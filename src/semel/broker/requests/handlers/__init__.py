"""The handlers of the APIs, one module for each, named as in Kafka's protocol.

``routes.py`` above finds a handler by the name of its API; it need not be registered elsewhere. The code that several
APIs share is here too: ``ask_each.py`` (requests about several groups or transactions), ``offset_commit_partitions.py``
(OffsetCommit and TxnOffsetCommit), ``authorized_operations.py``, ``config_policy.py``, ``security_change.py`` and
``mutation_quota.py``.
"""
