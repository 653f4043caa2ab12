"""The requests and results of a consumer group, as values. ``None`` stands where Kafka's messages have null."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from semel.coordinator.group.consumer.records import AssignedPartition, ConsumerMember, CurrentAssignment, Partitions
from semel.errors import ErrorCode
from semel.wire.messages.consumer_group_heartbeat import JOINING


def every_topic(name: str) -> bool:
    """Where everything is allowed."""
    return True


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """ConsumerGroupHeartbeat. ``None`` means "as before"."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    topic_names: tuple[str, ...] | None = None
    topic_regex: str | None = None
    """Empty: no longer any."""
    assignor: str | None = None
    claimed: Collection[AssignedPartition] | None = None
    """What the member owns, as it sees it. No set is made of what a client sends: it could choose UUIDs that all have
    the same hash."""
    client_id: str = ""
    client_host: str = ""
    may_describe: Callable[[str], bool] = field(default=every_topic, compare=False)
    """Whether the member's client may see a topic: one that it may not is meant by no regular expression."""

    @property
    def is_full(self) -> bool:
        """Whether the member says everything, as after it lost an answer: it is then told everything."""
        subscribes = self.topic_names is not None or self.topic_regex is not None
        says_all = subscribes and self.rebalance_timeout_ms is not None and self.claimed is not None
        return self.member_epoch == JOINING or says_all


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeatResult:
    member_id: str | None = None
    member_epoch: int = 0
    assigned: Partitions | None = None
    """``None``: as before."""
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
    """By member id."""
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
