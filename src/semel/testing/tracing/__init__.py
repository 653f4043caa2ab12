"""What passes on the wire between clients and brokers, seen from outside: for ``semel trace`` and the lab.

Read ``wire_observer.py`` first: who is told, and of what. ``wire_trace.py`` makes events of frames, ``summaries.py``
says which fields of a message matter, ``proxy.py`` stands in front of brokers that run elsewhere.
"""
