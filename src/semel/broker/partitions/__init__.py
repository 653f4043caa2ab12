"""The partitions that this broker leads: their terms, the requests that wait for them, and their maintenance.

Open ``partitions.py`` first; ``partition_lifecycle.py`` follows the cluster's image.
"""
