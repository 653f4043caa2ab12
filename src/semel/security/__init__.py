"""Authentication (SASL), ACLs and quotas: pure decisions, without I/O, that broker and client share.

Begin with ``acl_table.py``: Kafka's model of access, as one function over an immutable table.
"""
