"""The partitions that this broker leads: which they are, which requests wait for them, and their maintenance.

Open ``partitions.py`` first; ``partition_lifecycle.py`` follows the cluster's image.
"""
