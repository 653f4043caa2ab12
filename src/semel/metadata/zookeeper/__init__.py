"""The metadata of a cluster of several brokers, in ZooKeeper. See docs/design/zookeeper-store.md.

Open ``store.py`` first: it is the ``MetadataStore``. ``znode_tree.py`` is the state that it has read, and what a commit
writes. ``session.py`` is the interface to ZooKeeper; ``kazoo_session.py`` implements it with a real ZooKeeper,
``semel.testing.zookeeper`` with a model.
"""
