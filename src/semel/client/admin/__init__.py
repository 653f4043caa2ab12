"""``semel.Admin``: what can be asked of a cluster, and changed in it, beside records.

    admin         the class; asking: how a call becomes an ask of the machine; results: what comes back for many things
    topics, configs, partitions, groups, cluster, transactions, acls, quotas, users
                  one part of the class each: its values, its calls, and how they read on the wire
    hanging       open transactions that no coordinator will end
    batches       what is in a partition, as it is in the log

Where a request goes, and when it is sent again, is decided in ``semel.client.machine.admin.admin``.
"""
