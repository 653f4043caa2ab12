"""The membership of a broker in a cluster of several, and its connections to the others. See docs/design/cluster.md.

Open ``membership.py`` first: how a broker joins, loses its session and joins again. ``peers.py`` has the connections to
the other brokers, ``shared_metadata.py`` opens the metadata that all of them share. A cluster of one broker uses
nothing of this package.
"""
