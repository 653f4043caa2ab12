"""The requests to brokers that several pages need, each sent at most once every few seconds."""

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
"""If there are more groups than this, only a group's own page requests its offsets."""
DESCRIBED_MAX: Final = 500
"""How many transactions are described, for their age."""
PARTITIONS_PER_S: Final = 500
"""An answer about many partitions is cached longer the more there are: one about 10,000 partitions for 20 s."""
_FINISHED: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})
_READ_COMMITTED: Final = "read_committed"


def cluster(connection: Connection) -> ClusterDescription:
    return connection.answers.get("cluster", CALM_S, connection.admin.cluster.describe)


def topics(connection: Connection) -> dict[str, TopicListing]:
    """Return all topics by name, including the internal ones."""
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
    """The log start offset, the last stable offset, and the high watermark (``end``) of a partition."""

    start: int
    stable: int
    end: int

    @property
    def unstable_count(self) -> int:
        return max(self.end - self.stable, 0)


def ends(connection: Connection, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Ends]:
    """Return the first offset, the last stable offset and the high watermark of each partition.

    Partitions without an answer are left out.
    """
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
    """Return the log end offset of each partition's leader, which also counts records that are not committed yet.

    Partitions whose leader does not support the request are left out.
    """
    wanted = tuple(sorted(partitions))

    def ask() -> dict[TopicPartition, int]:
        found = connection.admin.partitions.log_ends(wanted).succeeded
        return {partition: listed.offset for partition, listed in found.items() if listed.offset is not None}

    return connection.answers.get(("log ends", wanted), FRESH_S, ask)


def sample_rates(connection: Connection) -> bool:
    """Sample the high watermarks of all partitions of non-internal topics, from which rates are computed.

    Return ``False``, without a sample, if there are too many partitions.
    """
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
    """Return the committed offsets of each group; ``None`` if there are too many groups to ask for all."""
    every = committed_with_metadata(connection)
    if every is None:
        return None
    return {name: {one: at.offset for one, at in offsets.items()} for name, offsets in every.items()}


def committed_with_metadata(
    connection: Connection,
) -> Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]] | None:
    """Return the committed offsets of each group with their metadata; ``None`` if there are too many groups."""
    names = [group.group_id for group in groups(connection)]
    if len(names) > GROUPS_MAX:
        return None
    return connection.answers.get(("committed", tuple(names)), CALM_S, lambda: _committed(connection, names))


def _committed(connection: Connection, names: Iterable[str]) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
    asked = connection.admin.groups.list_offsets_many(names)
    found = asked.succeeded
    for name, error in asked.failed.items():
        # An older broker answers for one group at a time only. After other errors the group is left out: it was deleted
        # meanwhile, or this user may not see it; the group's own page says which.
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            with contextlib.suppress(KafkaError):
                found[name] = connection.admin.groups.list_offsets(name)
    return found


def transactions(connection: Connection) -> tuple[TransactionListing, ...]:
    return connection.answers.get("transactions", FRESH_S, connection.admin.transactions.list)


def is_open(state: str) -> bool:
    return state not in _FINISHED


def open_transactions(connection: Connection) -> Mapping[str, TransactionDescription]:
    """Return the descriptions of the transactions that are not finished, by transactional id."""
    names = tuple(listing.transactional_id for listing in transactions(connection) if is_open(listing.state))
    wanted = names[:DESCRIBED_MAX]
    if not wanted:
        return {}
    return connection.answers.get(
        ("open transactions", wanted), FRESH_S, lambda: connection.admin.transactions.describe_many(wanted).succeeded
    )
