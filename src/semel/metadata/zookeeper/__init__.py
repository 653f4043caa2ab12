"""The metadata of a cluster of several brokers, in ZooKeeper. See docs/design/zookeeper-store.md.

Open ``store.py`` first: it is the ``MetadataStore``. ``znode_tree.py`` is the state that it has read, and what a commit
writes. ``session.py`` is what the store needs of ZooKeeper; ``kazoo_session.py`` is that over a real one,
``semel.testing.zookeeper`` over a model.
"""
