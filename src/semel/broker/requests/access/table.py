"""What each API asks for. One that is not here is not served where an authorizer is configured."""

from __future__ import annotations

from typing import Final

from semel.broker.requests.access import cluster, groups, topics, transactions
from semel.broker.requests.access.declarations import Access
from semel.wire.apis import ApiKey

ACCESS: Final[dict[ApiKey, Access]] = {
    ApiKey.PRODUCE: topics.PRODUCE,
    ApiKey.FETCH: topics.FETCH,
    ApiKey.LIST_OFFSETS: topics.LIST_OFFSETS,
    ApiKey.METADATA: topics.METADATA,
    ApiKey.OFFSET_COMMIT: groups.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH: groups.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR: transactions.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP: groups.JOIN_GROUP,
    ApiKey.HEARTBEAT: groups.HEARTBEAT,
    ApiKey.LEAVE_GROUP: groups.LEAVE_GROUP,
    ApiKey.SYNC_GROUP: groups.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS: groups.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS: groups.LIST_GROUPS,
    ApiKey.SASL_HANDSHAKE: cluster.FREE,
    ApiKey.API_VERSIONS: cluster.FREE,
    ApiKey.CREATE_TOPICS: topics.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS: topics.DELETE_TOPICS,
    ApiKey.DELETE_RECORDS: topics.DELETE_RECORDS,
    ApiKey.INIT_PRODUCER_ID: transactions.INIT_PRODUCER_ID,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: topics.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN: transactions.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN: transactions.END_TXN,
    ApiKey.WRITE_TXN_MARKERS: transactions.WRITE_TXN_MARKERS,
    ApiKey.TXN_OFFSET_COMMIT: transactions.TXN_OFFSET_COMMIT,
    ApiKey.DESCRIBE_ACLS: cluster.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS: cluster.CREATE_ACLS,
    ApiKey.DELETE_ACLS: cluster.DELETE_ACLS,
    ApiKey.DESCRIBE_CONFIGS: cluster.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS: cluster.ALTER_CONFIGS,
    ApiKey.DESCRIBE_LOG_DIRS: cluster.DESCRIBE_LOG_DIRS,
    ApiKey.SASL_AUTHENTICATE: cluster.FREE,
    ApiKey.CREATE_PARTITIONS: topics.CREATE_PARTITIONS,
    ApiKey.DELETE_GROUPS: groups.DELETE_GROUPS,
    ApiKey.ELECT_LEADERS: cluster.ELECT_LEADERS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: cluster.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.OFFSET_DELETE: groups.OFFSET_DELETE,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: cluster.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.ALTER_CLIENT_QUOTAS: cluster.ALTER_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: cluster.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: cluster.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.DESCRIBE_CLUSTER: cluster.DESCRIBE_CLUSTER_,
    ApiKey.DESCRIBE_PRODUCERS: topics.DESCRIBE_PRODUCERS,
    ApiKey.DESCRIBE_TRANSACTIONS: transactions.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS: transactions.LIST_TRANSACTIONS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: groups.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE: groups.CONSUMER_GROUP_DESCRIBE,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: topics.DESCRIBE_TOPIC_PARTITIONS,
}
