"""The enums of Kafka's protocol for ACLs, SCRAM mechanisms and the sources of configs."""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class Code(IntEnum):
    """An enum with Kafka's numbers. A number that it does not have, sent by a newer peer, becomes UNKNOWN (0)."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls(0)


class AclOperation(Code):
    """The operations that an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclResourceType(Code):
    """The types of resources that ACLs are about."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPatternType(Code):
    """How the name of a resource pattern is compared. MATCH is for filters: all ACLs that would hold for the name."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclPermission(Code):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ScramMechanism(Code):
    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


class ConfigSource(Code):
    """The source of the value of a setting, in DescribeConfigs."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    """Set dynamically, for one broker."""
    ALL_BROKERS = 3
    """Set dynamically, for all brokers."""
    STATIC_BROKER = 4
    """Set in the broker's file or on its command line."""
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8
