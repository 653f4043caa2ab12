"""The requests and results of a consumer group, as values. ``None`` represents the null of Kafka's messages."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from semel.coordinator.group.consumer.records import AssignedPartition, ConsumerMember, CurrentAssignment, Partitions
from semel.errors import ErrorCode
from semel.wire.messages.consumer_group_heartbeat import JOINING


def every_topic(name: str) -> bool:
    """A ``may_describe`` that allows every topic."""
    return True


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A ConsumerGroupHeartbeat request. A field that is ``None`` has the same value as before."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    topic_names: tuple[str, ...] | None = None
    topic_regex: str | None = None
    """Empty: the member no longer has a regular expression."""
    assignor: str | None = None
    claimed: Collection[AssignedPartition] | None = None
    """The partitions that the member says it owns. Values from a client are not put into a set: it could choose UUIDs
    that all have the same hash."""
    client_id: str = ""
    client_host: str = ""
    may_describe: Callable[[str], bool] = field(default=every_topic, compare=False)
    """Whether the client may describe a topic. A topic that it may not describe matches no regular expression."""

    @property
    def is_full(self) -> bool:
        """Whether the request has all fields, as after a lost response: the response then has the assignment too."""
        subscribes = self.topic_names is not None or self.topic_regex is not None
        says_all = subscribes and self.rebalance_timeout_ms is not None and self.claimed is not None
        return self.member_epoch == JOINING or says_all


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeatResult:
    member_id: str | None = None
    member_epoch: int = 0
    assigned: Partitions | None = None
    """The assigned partitions; ``None`` if they are the same as before."""
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def refused(error: ErrorCode, message: str) -> ConsumerHeartbeatResult:
    return ConsumerHeartbeatResult(error=error, message=message)


@dataclass(frozen=True, slots=True)
class MemberDescription:
    member: ConsumerMember
    current: CurrentAssignment
    target: Partitions


@dataclass(frozen=True, slots=True)
class GroupDescription:
    group_id: str
    state_name: str = ""
    epoch: int = 0
    target_epoch: int = 0
    assignor: str = ""
    members: tuple[MemberDescription, ...] = ()
    """Sorted by member id."""
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
