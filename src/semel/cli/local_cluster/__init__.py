"""A cluster on this machine, for ``semel cluster up``: a ZooKeeper and several brokers, each a process of its own.

Open ``local_cluster.py`` first: it starts, watches and stops the processes. ``zookeeper_server.py`` runs ZooKeeper's
Java process, ``cluster_file.py`` stores the ports, so that the next start on the same folder is the same cluster.
"""
