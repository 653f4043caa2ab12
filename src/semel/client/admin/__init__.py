"""``semel.Admin``: describes and changes everything in a cluster but records.

    admin         the class; admin_requests: how a call becomes an ask of the machine
    results       the results of a call about many things
    topics, configs, partitions, groups, cluster, transactions, acls, quotas, users
                  one part of the class each: its values, its calls, and how they read on the wire
    hanging       open transactions that no coordinator will end
    batches       the record batches of a partition, as they are in the log

``semel.client.machine.admin.admin`` decides which broker a request goes to, and when it is sent again.
"""
