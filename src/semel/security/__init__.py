"""Who a client is and what it may do: pure decisions that broker and client share.

Begin with ``acl_table.py``: Kafka's model of access, as one function over an immutable table.
"""
