"""The broker: sockets, disks, timers and requests.

Open ``broker.py`` first: it creates all the parts and connects them. A request goes through ``network``, ``requests``
and its file in ``requests/handlers``; from there to ``produce``, ``fetch`` or ``coordinators``. ``partitions`` has the
partitions that this broker leads. The decisions of the coordinators, of replication and of the controller are in
packages without I/O: ``semel.coordinator``, ``semel.replication`` and ``semel.metadata``.
"""
