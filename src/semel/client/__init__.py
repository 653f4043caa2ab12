"""The client: ``Producer``, ``Consumer`` and ``Admin``, for asyncio; ``semel.blocking`` has them for threads.

The public classes are here: open ``producer.py`` or ``consumer.py`` first. Behind them are ``producer_session.py`` and
``consumer_session.py``, which the blocking classes share. They run the machines of ``machine``, which decide everything
and do no I/O, through ``drivers``. ``config`` has the settings, ``security`` TLS and SASL, ``assignors`` the assignment
of partitions in a classic group, ``arrow`` the encoding and decoding of records as Arrow columns, ``tracing`` the spans
of OpenTelemetry.
"""
