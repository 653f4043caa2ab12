"""Numbers that stand for something by themselves: what may be done, where a setting is set."""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class Code(IntEnum):
    """Numbered as on the wire, with 0 for UNKNOWN: that is what a number of a newer peer is, which has no name here."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls(0)


class AclOperation(Code):
    """What can be allowed or denied."""

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
    """What it can be allowed or denied with."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPatternType(Code):
    """How a name is meant. MATCH is for filters: whatever rule would hold for this name."""

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
    """Where a value comes from."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    """Set while it runs, for this broker."""
    ALL_BROKERS = 3
    """Set while they run, for all."""
    STATIC_BROKER = 4
    """The broker's file or command line."""
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8
