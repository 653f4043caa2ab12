"""The page of all Spark pipelines, and the page of one: its offsets, lag, and the outcomes of its last batches.

The console is a client of brokers and not of Spark: it shows what a pipeline writes to the brokers, and says which
facts are not known from that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from semel.client.values import OffsetAndMetadata
from semel.console import cached_requests
from semel.console.cached_requests import Ends
from semel.console.lags import Lag, LagCounter, total
from semel.console.pages import InvalidRequest, Page, Visit
from semel.console.paging import matches, sliced
from semel.console.views.transaction import OFFSETS_MAX, OUTCOME_TONES, OneTransaction, history_of, transactions_of
from semel.errors import KafkaError
from semel.inspection.pipeline_batches import NotedOffset, NotedOffsets, noted_offsets
from semel.inspection.pipeline_note import Note, latest_note
from semel.types import CONSUMER_OFFSETS_TOPIC, TopicPartition

_ATTEMPTS_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class PipelineRow:
    """A group whose committed offsets have notes, with the latest note."""

    group: str
    note: Note
    topics: tuple[str, ...]
    state: str | None
    """The state of the pipeline's transactional id."""
    lag: Lag


@dataclass(frozen=True, slots=True)
class NotedPartition:
    partition: TopicPartition
    committed: int
    note: Note | None
    ends: Ends | None
    lag: Lag | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One transaction of a pipeline: an attempt at a batch.

    ``batch`` is ``None`` if the transaction ended before its offsets were sent, and -1 for the one in which a pipeline
    notes its first offsets. ``offsets_read`` is ``None`` if the log does not have the batch before.
    """

    of: OneTransaction
    batch: int | None
    offsets_read: int | None
    records_written: Mapping[str, int]
    """The number of records that the transaction wrote, by topic."""


def pipelines(visit: Visit) -> Page:
    connection = visit.connection
    every = cached_requests.committed_with_metadata(connection)
    rows: list[PipelineRow] = []
    if every is not None:
        noted = {name: (note, offsets) for name, offsets in every.items() if (note := _latest(offsets)) is not None}
        noted = {name: found for name, found in noted.items() if matches(visit, name, found[0].owner)}
        states = {one.transactional_id: one.state for one in cached_requests.transactions(connection)} if noted else {}
        ends = cached_requests.ends(connection, {one for _, offsets in noted.values() for one in offsets})
        counter = LagCounter(connection)
        rows = [
            PipelineRow(
                name,
                note,
                tuple(sorted({one.topic for one in offsets})),
                states.get(note.owner or ""),
                counter.group_lag({one: at.offset for one, at in offsets.items()}, ends),
            )
            for name, (note, offsets) in sorted(noted.items())
        ]
    values = {
        "part": sliced(visit, "pipelines", rows),
        "query": visit.query.get("q", ""),
        "too_many": every is None,
        "groups_max": cached_requests.GROUPS_MAX,
    }
    return Page("pipelines.html", "Pipelines", "pipelines", values)


def pipeline(visit: Visit) -> Page:
    connection, group = visit.connection, visit.name("group")
    offsets = connection.answers.get(
        ("noted group", group), cached_requests.FRESH_S, lambda: connection.admin.groups.list_offsets(group)
    )
    note = _latest(offsets)
    if note is None:
        raise InvalidRequest(f"group {group!r}: no pipeline has left a note beside its offsets")
    rows = _partitions(visit, offsets)
    attempts, trouble, complete_since = _attempts(visit, group, note)
    values = {
        "group": group,
        "note": note,
        "rows": rows,
        "lag": total(row.lag for row in rows if row.lag is not None),
        "attempts": attempts[:_ATTEMPTS_MAX],
        "attempt_count": len(attempts),
        "aborted": sum(one.of.outcome in ("aborted", "aborting") for one in attempts),
        "trouble": trouble,
        "complete_since": complete_since,
        "offsets_max": OFFSETS_MAX,
        "tones": OUTCOME_TONES,
    }
    return Page("pipeline.html", note.owner or group, "pipelines", values)


def attempts_of(transactions: Sequence[OneTransaction], noted: NotedOffsets) -> list[Attempt]:
    """Return the attempts, the newest first. ``transactions`` are the pipeline's transactions, the newest first."""
    coordinator_partition = f"{noted.coordinator_partition.topic}:{noted.coordinator_partition.partition}"
    at: dict[TopicPartition, int] = {}
    attempts: list[Attempt] = []
    for one in reversed(transactions):
        sent: list[NotedOffset] = []
        records: dict[str, int] = {}
        for written in one.written:
            topic = written.partition.rpartition(":")[0]
            if written.partition == coordinator_partition:
                sent += noted.within(written.producer_id, written.first_offset, written.last_offset)
            elif topic != CONSUMER_OFFSETS_TOPIC:
                records[topic] = records.get(topic, 0) + written.records
        batch = max((offset.note.batch_id for offset in sent), default=None)
        read = None
        if sent and batch is not None and batch >= 0 and all(offset.partition in at for offset in sent):
            read = sum(offset.offset - at[offset.partition] for offset in sent)
        if one.outcome == "committed":
            at |= {offset.partition: offset.offset for offset in sent}
        attempts.append(Attempt(one, batch, read, records))
    return attempts[::-1]


def _latest(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Note | None:
    return latest_note(at.metadata for at in offsets.values())


def _partitions(visit: Visit, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> list[NotedPartition]:
    ends = cached_requests.ends(visit.connection, offsets)
    counter = LagCounter(visit.connection)
    return [
        NotedPartition(
            partition,
            at.offset,
            Note.parse(at.metadata),
            ends.get(partition),
            counter.lag_of(partition, at.offset, ends[partition]) if partition in ends else None,
        )
        for partition, at in sorted(offsets.items())
    ]


def _attempts(visit: Visit, group: str, note: Note) -> tuple[list[Attempt], str | None, str | None]:
    """Return the attempts, or the reason why they are not known, and the time since when they are complete."""
    connection, owner = visit.connection, note.owner
    if owner is None:
        return [], "an older version of Semel wrote the notes, without the transactional id", None
    try:
        found = connection.answers.get(
            ("transaction", owner), cached_requests.FRESH_S, lambda: connection.admin.transactions.describe(owner)
        )
        history, trouble = history_of(visit, found)
        if history is None:
            return [], trouble, None
        # The offsets are read again when the transactional id's state has changed: a batch's offsets are in its
        # transaction.
        moved = (found.state, found.producer_epoch, found.start_time_ms)
        noted = connection.answers.get(
            ("noted", group, moved), 30.0, lambda: noted_offsets(connection.admin, group, offsets_max=OFFSETS_MAX)
        )
    except KafkaError as error:
        return [], str(error), None
    return attempts_of(transactions_of(history), noted), None, history.complete_since
