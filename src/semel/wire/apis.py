"""The APIs of Kafka's protocol: all keys, and the version ranges of the APIs that Semel declares.

The ranges are those of an Apache Kafka 4.3 broker. The broker derives from them what it serves and advertises. Two
rules about *advertised* versions are part of this table, because clients fail silently when they are broken:

- Produce is advertised from version 0 although versions 0 to 2 are refused (``advertised_min_version``). librdkafka
  checks for version 0 before it compresses with gzip, snappy or lz4, and does not compress if it is missing.
- The ranges must contain Produce 3 and Fetch 4: librdkafka up to 2.8 checks for exactly these before it uses record
  batches v2.

Message modules are imported when ``request_class`` or ``response_class`` is first used.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any, Final


class ApiKey(IntEnum):
    """All API keys of Kafka, under Kafka's names, also those that Semel does not implement."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93
    UNREGISTER_CONTROLLER = 94


@dataclass(frozen=True, slots=True)
class Api:
    """One API: a request and its response. Versions are inclusive; ``flexible_since`` is None if none is flexible."""

    key: ApiKey
    min_version: int
    max_version: int
    flexible_since: int | None
    advertised_min_version: int

    @property
    def name(self) -> str:
        """Kafka's name of the API, with which its message classes begin: ``InitProducerId``."""
        return _camel_case(self.key)

    @property
    def request_class(self) -> type[Any]:
        return _message_class(self.key, "Request")

    @property
    def response_class(self) -> type[Any]:
        return _message_class(self.key, "Response")

    def flexible_in(self, version: int) -> bool:
        return self.flexible_since is not None and version >= self.flexible_since


def _api(
    key: ApiKey, first: int, last: int, *, flexible: int | None, advertised_min_version: int | None = None
) -> tuple[ApiKey, Api]:
    return key, Api(key, first, last, flexible, first if advertised_min_version is None else advertised_min_version)


APIS: Final[dict[int, Api]] = dict(
    (
        _api(ApiKey.PRODUCE, 3, 13, flexible=9, advertised_min_version=0),
        _api(ApiKey.FETCH, 4, 18, flexible=12),
        _api(ApiKey.LIST_OFFSETS, 1, 11, flexible=6),
        _api(ApiKey.METADATA, 0, 13, flexible=9),
        _api(ApiKey.OFFSET_COMMIT, 2, 10, flexible=8),
        _api(ApiKey.OFFSET_FETCH, 1, 10, flexible=6),
        _api(ApiKey.FIND_COORDINATOR, 0, 6, flexible=3),
        _api(ApiKey.JOIN_GROUP, 0, 9, flexible=6),
        _api(ApiKey.HEARTBEAT, 0, 4, flexible=4),
        _api(ApiKey.LEAVE_GROUP, 0, 5, flexible=4),
        _api(ApiKey.SYNC_GROUP, 0, 5, flexible=4),
        _api(ApiKey.DESCRIBE_GROUPS, 0, 6, flexible=5),
        _api(ApiKey.LIST_GROUPS, 0, 5, flexible=3),
        _api(ApiKey.SASL_HANDSHAKE, 0, 1, flexible=None),
        _api(ApiKey.API_VERSIONS, 0, 4, flexible=3),
        _api(ApiKey.CREATE_TOPICS, 2, 7, flexible=5),
        _api(ApiKey.DELETE_TOPICS, 1, 6, flexible=4),
        _api(ApiKey.DELETE_RECORDS, 0, 2, flexible=2),
        # Version 6 (two-phase commit) is unstable in Kafka 4.3 and is not offered.
        _api(ApiKey.INIT_PRODUCER_ID, 0, 5, flexible=2),
        _api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, flexible=4),
        _api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, flexible=3),
        _api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, flexible=3),
        _api(ApiKey.END_TXN, 0, 5, flexible=3),
        _api(ApiKey.WRITE_TXN_MARKERS, 1, 2, flexible=1),
        _api(ApiKey.TXN_OFFSET_COMMIT, 0, 5, flexible=3),
        _api(ApiKey.DESCRIBE_ACLS, 1, 3, flexible=2),
        _api(ApiKey.CREATE_ACLS, 1, 3, flexible=2),
        _api(ApiKey.DELETE_ACLS, 1, 3, flexible=2),
        _api(ApiKey.DESCRIBE_CONFIGS, 1, 4, flexible=4),
        _api(ApiKey.ALTER_CONFIGS, 0, 2, flexible=2),
        _api(ApiKey.DESCRIBE_LOG_DIRS, 1, 5, flexible=2),
        _api(ApiKey.SASL_AUTHENTICATE, 0, 2, flexible=2),
        _api(ApiKey.CREATE_PARTITIONS, 0, 3, flexible=2),
        _api(ApiKey.DELETE_GROUPS, 0, 2, flexible=2),
        _api(ApiKey.ELECT_LEADERS, 0, 2, flexible=2),
        _api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, flexible=1),
        _api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, flexible=0),
        _api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, flexible=0),
        _api(ApiKey.OFFSET_DELETE, 0, 0, flexible=None),
        _api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, flexible=1),
        _api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, flexible=1),
        _api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, flexible=0),
        _api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, flexible=0),
        _api(ApiKey.DESCRIBE_QUORUM, 0, 2, flexible=0),
        _api(ApiKey.UPDATE_FEATURES, 0, 2, flexible=0),
        _api(ApiKey.DESCRIBE_CLUSTER, 0, 2, flexible=0),
        _api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, flexible=0),
        _api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, flexible=0),
        _api(ApiKey.LIST_TRANSACTIONS, 0, 2, flexible=0),
        _api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, flexible=0),
        _api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, flexible=0),
        _api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, flexible=0),
        _api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, flexible=0),
    )
)


@cache
def _camel_case(key: ApiKey) -> str:
    return "".join(word.capitalize() for word in key.name.split("_"))


@cache
def _message_class(key: ApiKey, kind: str) -> type[Any]:
    module = importlib.import_module(f"semel.wire.messages.{key.name.lower()}")
    message_class: type[Any] = getattr(module, _camel_case(key) + kind)
    return message_class
