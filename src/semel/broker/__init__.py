"""The broker: the part of Semel that does I/O and decides nothing.

Open ``broker.py`` first: it puts everything together. A request goes through ``network``, ``requests`` and its file in
``requests/handlers``; from there to ``produce``, ``fetch`` or ``coordinators``. ``partitions`` are the logs that this
broker leads.
"""
