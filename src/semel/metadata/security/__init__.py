"""The security of the cluster in its metadata: ACLs, SCRAM credentials of users, quotas.

Open ``image.py`` first: the part of the image, and its changes. ``acl_changes``, ``user_changes`` and ``quota_changes``
decide the requests for them; ``paths`` has their paths and values in the metadata store. The start of a broker without
ACLs, users and quotas imports nothing of this package.
"""
