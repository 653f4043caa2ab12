"""A model of a large cluster as the console's admin client sees it: 10,000 topics, and a group of 1,000 members.

It answers as one broker would, and counts: ``requests`` by the kind of request, ``about`` how many topics, partitions
or groups those of a kind were about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from semel import OffsetAndMetadata
from semel.admin import (
    BrokerDescription,
    ClusterDescription,
    ConfigEntry,
    Features,
    GroupDescription,
    GroupListing,
    GroupMember,
    ListedOffset,
    LogDir,
    OffsetSpec,
    PartitionDescription,
    ProducerState,
    RawBatches,
    ReplicaSize,
    Results,
    TopicDescription,
    TopicListing,
    TransactionDescription,
    TransactionListing,
)
from semel.errors import ErrorCode, client_error
from semel.types import TopicPartition
from tests.logs import batch

TOPICS: Final = 10_000
MEMBERS: Final = 1_000
GROUPS: Final = 150
TRANSACTIONS: Final = 10_000
PRODUCERS: Final = 10_000
"""Of every partition."""
OPEN: Final = 600
EVERYONE: Final = "everyone"
"""The group of all members. It reads every topic, and is a record behind everywhere."""

END: Final = 10
COMMITTED: Final = 9
_RECORDS: Final = bytes(batch(*(b"%d" % number for number in range(END))))


class LargeCluster:
    """What ``make_app`` takes for ``semel.blocking.Admin``; each part of the client is this object."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.about: Counter[str] = Counter()
        self.names = [f"topic-{number:05}" for number in range(TOPICS)]
        self.topics, self.partitions, self.groups = _Topics(self), _Partitions(self), _Groups(self)
        self.cluster, self.transactions, self.configs = _Cluster(self), _Transactions(self), _Configs(self)
        self.users, self.acls = _Security(self), _Security(self)

    def __call__(self, **settings: object) -> LargeCluster:
        return self

    def close(self) -> None:
        pass

    def asked(self, kind: str, about: int = 1) -> None:
        self.requests[kind] += 1
        self.about[kind] += about

    def clear_counts(self) -> None:
        self.requests.clear()
        self.about.clear()


class _Part:
    def __init__(self, cluster: LargeCluster) -> None:
        self._of = cluster


class _Topics(_Part):
    def list(self, *, include_internal: bool = False) -> dict[str, TopicListing]:
        self._of.asked("Metadata", TOPICS)
        return {name: TopicListing(name, UUID(int=at + 1), 1, False) for at, name in enumerate(self._of.names)}

    def describe_many(self, names: Iterable[str]) -> Results[str, TopicDescription]:
        wanted = [*names]
        self._of.asked("Metadata", len(wanted))
        state = PartitionDescription(0, 1, 0, (1,), (1,), ())
        found = {name: TopicDescription(name, UUID(int=1), False, (state,)) for name in wanted}
        return Results(wanted, found, {})

    def describe(self, name: str) -> TopicDescription:
        return self.describe_many([name])[name]


class _Partitions(_Part):
    def list_offsets(
        self, times: Mapping[TopicPartition, int], *, isolation_level: str = "read_uncommitted"
    ) -> Results[TopicPartition, ListedOffset]:
        self._of.asked("ListOffsets", len(times))
        found = {
            one: ListedOffset(0 if time == OffsetSpec.EARLIEST else END, None, None) for one, time in times.items()
        }
        return Results(times, found, {})

    def log_ends(self, partitions: Iterable[TopicPartition]) -> Results[TopicPartition, ListedOffset]:
        return self.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))

    def describe_producers(
        self, partitions: Iterable[tuple[str, int]]
    ) -> Results[TopicPartition, tuple[ProducerState, ...]]:
        wanted = [TopicPartition(*one) for one in partitions]
        self._of.asked("DescribeProducers", len(wanted))
        states = tuple(ProducerState(number, 0, 7, 1_700_000_000_000, None, None) for number in range(PRODUCERS))
        return Results(wanted, dict.fromkeys(wanted, states), {})

    def read_batches(self, partition: TopicPartition, offset: int, **how: object) -> RawBatches:
        # The page of a group reads its generations from the coordinator's partition.
        self._of.asked("Fetch of the coordinator's log" if partition.topic.startswith("__") else "Fetch")
        return RawBatches(_RECORDS if offset < END else b"", (), END, END, 0)


class _Groups(_Part):
    def list(self) -> tuple[GroupListing, ...]:
        self._of.asked("ListGroups")
        names = [EVERYONE, *(f"group-{number:03}" for number in range(GROUPS - 1))]
        return tuple(GroupListing(name, "consumer", "Stable", "consumer") for name in names)

    def describe_many(self, group_ids: Iterable[str]) -> Results[str, GroupDescription]:
        wanted = [*group_ids]
        self._of.asked("ConsumerGroupDescribe", len(wanted))
        return Results(wanted, {name: self._described(name) for name in wanted}, {})

    def describe(self, group_id: str) -> GroupDescription:
        return self.describe_many([group_id])[group_id]

    def list_offsets_many(self, group_ids: Iterable[str]) -> Results[str, dict[TopicPartition, OffsetAndMetadata]]:
        wanted = [*group_ids]
        self._of.asked("OffsetFetch", len(wanted))
        names = {name: self._of.names if name == EVERYONE else self._of.names[:10] for name in wanted}
        offsets = OffsetAndMetadata(COMMITTED)
        return Results(wanted, {name: {TopicPartition(t, 0): offsets for t in names[name]} for name in wanted}, {})

    def list_offsets(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        return self.list_offsets_many([group_id])[group_id]

    def _described(self, name: str) -> GroupDescription:
        each = TOPICS // MEMBERS
        members = tuple(
            GroupMember(
                f"member-{number:04}",
                None,
                f"client-{number:04}",
                "/127.0.0.1",
                tuple(TopicPartition(topic, 0) for topic in self._of.names[number * each : (number + 1) * each]),
                (),
            )
            for number in range(MEMBERS if name == EVERYONE else 1)
        )
        return GroupDescription(name, "consumer", "Stable", "consumer", "uniform", members, 1, 1)


class _Cluster(_Part):
    def describe(self) -> ClusterDescription:
        self._of.asked("DescribeCluster")
        return ClusterDescription("large", 1, (BrokerDescription(1, "127.0.0.1", 9092, None),))

    def features(self) -> Features:
        self._of.asked("ApiVersions")
        return Features({}, {}, 0)

    def log_dirs(self, *, partitions: Iterable[TopicPartition] | None = None) -> Results[int, dict[str, LogDir]]:
        wanted = [TopicPartition(name, 0) for name in self._of.names] if partitions is None else [*partitions]
        self._of.asked("DescribeLogDirs", len(wanted))
        replicas = {one: ReplicaSize(1_000, 0, False) for one in wanted}
        return Results([1], {1: {"/data": LogDir("/data", None, None, None, replicas)}}, {})


class _Transactions(_Part):
    def list(self) -> tuple[TransactionListing, ...]:
        self._of.asked("ListTransactions")
        return tuple(
            TransactionListing(f"id-{number:05}", number, "Ongoing" if number < OPEN else "CompleteCommit", 1)
            for number in range(TRANSACTIONS)
        )

    def describe_many(self, ids: Iterable[str]) -> Results[str, TransactionDescription]:
        wanted = [*ids]
        self._of.asked("DescribeTransactions", len(wanted))
        found = {
            name: TransactionDescription(name, "Ongoing", 1, 0, 60_000, 1, (TopicPartition(self._of.names[at], 0),))
            for at, name in enumerate(wanted)
        }
        return Results(wanted, found, {})


class _Configs(_Part):
    def describe(self, resource: object) -> dict[str, ConfigEntry]:
        self._of.asked("DescribeConfigs")
        return {}


class _Security(_Part):
    def list(self) -> dict[str, Any]:
        self._of.asked("DescribeUserScramCredentials")
        return {f"user-{number:05}": {} for number in range(10_000)}

    def describe(self) -> tuple[Any, ...]:
        self._of.asked("DescribeAcls")
        raise client_error(ErrorCode.SECURITY_DISABLED, "no authorizer")
