"""A model of ZooKeeper for simulations. It guarantees no more than the real one.

``ensemble.py`` is the state that its servers agree on, with sessions and their expiry. ``server.py`` is one server: it
may be behind the others, and answers reads from its own state. ``session.py`` is a client's session over the virtual
network, which the metadata store uses.
"""
