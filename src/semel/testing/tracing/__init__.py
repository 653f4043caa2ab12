"""Traces the requests and responses between clients and brokers, for ``semel trace`` and the lab.

Open ``wire_observer.py`` first: the interface that receives all messages. ``wire_trace.py`` makes events of frames,
``summaries.py`` selects the fields of a message that are shown, ``proxy.py`` is a proxy for brokers that run elsewhere.
"""
