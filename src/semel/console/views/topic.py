"""The page of one topic: its partitions, the groups that read it, its settings, and its records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from semel.admin import ConfigResource, PartitionDescription
from semel.console import cached_requests
from semel.console.cached_requests import Ends
from semel.console.lags import LagCounter
from semel.console.pages import Page, Visit
from semel.console.paging import sliced
from semel.console.texts import command, option
from semel.console.views.records import Search, found_records
from semel.console.views.topics import groups_of, sizes_of
from semel.errors import KafkaError
from semel.types import TopicPartition

_TICKS_MAX = 12


@dataclass(frozen=True, slots=True)
class PartitionRow:
    state: PartitionDescription
    ends: Ends | None
    log_end: int | None
    aborted: Sequence[tuple[int, int]]
    size_bytes: int | None
    ticks: list[tuple[str, int]]


def topic(visit: Visit) -> Page:
    connection = visit.connection
    name = visit.name("name")
    description = connection.answers.get(
        ("topic", name), cached_requests.FRESH_S, lambda: connection.admin.topics.describe(name)
    )
    part = sliced(visit, "topic", description.partitions)
    partitions = [TopicPartition(name, state.partition) for state in part.rows]
    ends = cached_requests.ends(connection, partitions)
    committed = cached_requests.committed(connection) or {}
    log_ends = cached_requests.log_ends(connection, partitions)
    sizes = sizes_of(connection, partitions) or {}
    search = Search.of(visit)
    readable = [TopicPartition(name, state.partition) for state in description.partitions if state.leader is not None]
    records = found_records(connection, readable, search, visit.schemas)
    rows = [
        PartitionRow(
            state,
            ends.get(partition),
            # The log end is never below the high watermark, but the two were requested at different moments.
            max(log_ends[partition], ends[partition].end) if partition in log_ends and partition in ends else None,
            records.aborted.get(partition.partition, ()),
            sizes.get(partition),
            [(group, offsets[partition]) for group, offsets in committed.items() if partition in offsets][:_TICKS_MAX],
        )
        for state, partition in zip(part.rows, partitions, strict=True)
    ]
    return Page(
        "topic.html",
        name,
        "topics",
        {
            "topic": description,
            "part": part,
            "rows": rows,
            "groups": groups_of(LagCounter(connection), partitions, ends, committed),
            "settings": _settings(visit, name),
            "search": search,
            "records": records,
            "line": _consuming(name, search),
        },
        # A page that follows the end, or shows the latest records, is live; the result of a search does not change.
        live_every_s=1.0 if search.is_following else cached_requests.FRESH_S + 0.5 if search.is_latest else None,
    )


def _consuming(name: str, search: Search) -> str:
    """Return the command that reads the records that are shown; it has no option for a key."""
    options = ["--show-control", *option("--isolation", "read_uncommitted")]
    if search.partition is not None:
        options += option("--partition", search.partition)
    if search.is_following:
        options.append("--follow")
    else:
        options += option("--from", search.time or ("beginning" if search.offset is None else search.offset))
    return command("consume", name=name, options=options)


def _settings(visit: Visit, name: str) -> list[tuple[str, str]] | None:
    """Return the topic's settings that are not at their defaults; ``None`` if this user may not see them."""
    admin = visit.connection.admin

    def ask() -> list[tuple[str, str]] | None:
        try:
            entries = admin.configs.describe(ConfigResource.topic(name))
        except KafkaError:
            return None
        return [
            (entry.name, "[hidden]" if entry.is_sensitive else str(entry.value))
            for _, entry in sorted(entries.items())
            if not entry.is_default
        ]

    return visit.connection.answers.get(("topic settings", name), 10.0, ask)
