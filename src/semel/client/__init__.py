"""The client: ``Producer``, ``Consumer`` and ``Admin``, for asyncio and for threads.

What is public lies here: open ``producer.py`` or ``consumer.py`` first. They drive the machines of ``machine``, which
decide everything and do no I/O, through ``drivers``. ``config`` has the settings, ``security`` TLS and SASL,
``assignors`` the assignment of partitions in a classic group, ``arrow`` records by the column.
"""
