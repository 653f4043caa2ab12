"""The questions that several pages have, each asked at most every few seconds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from semel.admin import (
    ClusterDescription,
    GroupListing,
    OffsetSpec,
    TopicDescription,
    TopicListing,
    TransactionDescription,
    TransactionListing,
)
from semel.client.values import OffsetAndMetadata
from semel.console.connections import Connection
from semel.console.rates import PARTITIONS_MAX
from semel.errors import ErrorCode, KafkaError
from semel.types import TopicPartition

FRESH_S: Final = 1.5
CALM_S: Final = 4.0
GROUPS_MAX: Final = 200
"""Of more groups than these, offsets are asked on their own pages only."""
DESCRIBED_MAX: Final = 500
"""So many transactions are asked for their age."""
PARTITIONS_PER_S: Final = 500
"""An answer about many partitions is good for longer, the more there are: 10,000 for 20 s."""
_FINISHED: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})
_READ_COMMITTED: Final = "read_committed"


def cluster(connection: Connection) -> ClusterDescription:
    return connection.answers.get("cluster", CALM_S, connection.admin.cluster.describe)


def topics(connection: Connection) -> dict[str, TopicListing]:
    """Every topic by name, the internal ones too."""
    return connection.answers.get("topics", CALM_S, lambda: connection.admin.topics.list(include_internal=True))


def partition_count(connection: Connection) -> int:
    return sum(topic.partitions for topic in topics(connection).values())


def all_described(connection: Connection) -> Mapping[str, TopicDescription]:
    names = tuple(topics(connection))
    return connection.answers.get(
        ("all described", names),
        max(CALM_S, len(names) / PARTITIONS_PER_S),
        lambda: connection.admin.topics.describe_many(names).succeeded,
    )


def described(connection: Connection, names: Iterable[str]) -> Mapping[str, TopicDescription]:
    wanted = tuple(names)
    return connection.answers.get(
        ("described", wanted), FRESH_S, lambda: connection.admin.topics.describe_many(wanted).succeeded
    )


@dataclass(frozen=True, slots=True)
class Ends:
    """Where a partition begins, up to where it is stable, and where it ends for readers (the high watermark)."""

    start: int
    stable: int
    end: int

    @property
    def held_up(self) -> int:
        return max(self.end - self.stable, 0)


def ends(connection: Connection, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Ends]:
    """The offsets at which each partition begins and ends. Partitions without an answer are left out."""
    wanted = tuple(sorted(partitions))
    return connection.answers.get(
        ("ends", wanted), max(FRESH_S, len(wanted) / PARTITIONS_PER_S), lambda: _ends(connection, wanted)
    )


def _ends(connection: Connection, wanted: tuple[TopicPartition, ...]) -> dict[TopicPartition, Ends]:
    ask = connection.admin.partitions.list_offsets
    starts = ask(dict.fromkeys(wanted, OffsetSpec.EARLIEST)).succeeded
    stables = ask(dict.fromkeys(wanted, OffsetSpec.LATEST), isolation_level=_READ_COMMITTED).succeeded
    lasts = ask(dict.fromkeys(wanted, OffsetSpec.LATEST)).succeeded
    return {
        partition: Ends(starts[partition].offset or 0, stables[partition].offset or 0, lasts[partition].offset or 0)
        for partition in wanted
        if partition in starts and partition in stables and partition in lasts
    }


def log_ends(connection: Connection, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
    """Up to where the leader of each has records, replicated and synced or not. Of those that tell it."""
    wanted = tuple(sorted(partitions))

    def ask() -> dict[TopicPartition, int]:
        found = connection.admin.partitions.log_ends(wanted).succeeded
        return {partition: listed.offset for partition, listed in found.items() if listed.offset is not None}

    return connection.answers.get(("log ends", wanted), FRESH_S, ask)


def sample_rates(connection: Connection) -> bool:
    """Note how far every partition of users' topics is. Returns whether there are few enough to do so."""
    listed = topics(connection)
    partitions = [
        TopicPartition(topic.name, index)
        for topic in listed.values()
        if not topic.is_internal
        for index in range(topic.partitions)
    ]
    if len(partitions) > PARTITIONS_MAX:
        return False

    def ask() -> dict[TopicPartition, int]:
        found = connection.admin.partitions.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST)).succeeded
        return {partition: listed.offset or 0 for partition, listed in found.items()}

    connection.rates.sample(ask)
    return True


def groups(connection: Connection) -> tuple[GroupListing, ...]:
    return connection.answers.get("groups", FRESH_S, connection.admin.groups.list)


def committed(connection: Connection) -> Mapping[str, Mapping[TopicPartition, int]] | None:
    """How far each group has read; ``None`` if there are too many groups to ask all."""
    every = committed_with_metadata(connection)
    if every is None:
        return None
    return {name: {one: at.offset for one, at in offsets.items()} for name, offsets in every.items()}


def committed_with_metadata(
    connection: Connection,
) -> Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]] | None:
    """The same, with what each offset was committed with."""
    names = [group.group_id for group in groups(connection)]
    if len(names) > GROUPS_MAX:
        return None
    return connection.answers.get(("committed", tuple(names)), CALM_S, lambda: _committed(connection, names))


def _committed(connection: Connection, names: Iterable[str]) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
    asked = connection.admin.groups.list_offsets_many(names)
    found = asked.succeeded
    for name, error in asked.failed.items():
        # Others were deleted meanwhile, or this user may not see them; their own pages say which.
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            with contextlib.suppress(KafkaError):
                found[name] = connection.admin.groups.list_offsets(name)
    return found


def transactions(connection: Connection) -> tuple[TransactionListing, ...]:
    return connection.answers.get("transactions", FRESH_S, connection.admin.transactions.list)


def is_open(state: str) -> bool:
    return state not in _FINISHED


def open_transactions(connection: Connection) -> Mapping[str, TransactionDescription]:
    """What is known of those that are not finished, by transactional id."""
    names = tuple(listing.transactional_id for listing in transactions(connection) if is_open(listing.state))
    wanted = names[:DESCRIBED_MAX]
    if not wanted:
        return {}
    return connection.answers.get(
        ("open transactions", wanted), FRESH_S, lambda: connection.admin.transactions.describe_many(wanted).succeeded
    )
