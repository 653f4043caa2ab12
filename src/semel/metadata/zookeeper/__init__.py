"""The metadata of a cluster of several brokers, in ZooKeeper. See docs/design/zookeeper-store.md.

Open ``store.py`` first: it is the ``MetadataStore``. ``session.py`` is what it needs of ZooKeeper; ``kazoo_session.py``
is that over a real one, ``semel.testing.virtual.zookeeper`` over a model.
"""
