"""The records of a topic: the latest, those from an offset or a time on, or those with a key.

Each record is shown with its kind: data, open, waiting, aborted, or a marker. A search reads at most a number of bytes
and says how far it got. Keys and values are shown as text, JSON is indented, values that name a schema of the registry
are decoded, other bytes are shown in hexadecimal; the template escapes all of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from semel.client.admin.partitions import ProducerState
from semel.console import cached_requests
from semel.console.avro_values import NotDecoded
from semel.console.connections import Connection
from semel.console.pages import InvalidRequest, Visit
from semel.console.schema_registry import FRAME_BYTES, NoSchema, SchemaRegistry, schema_id_of
from semel.errors import KafkaError
from semel.inspection.marked_records import ABORTED, DATA, OPEN, WAITING, MarkedRecord, mark_records
from semel.inspection.times import time_text, timestamp_of
from semel.types import TopicPartition

SHOWN_MAX: Final = 50
READ_BYTES_MAX: Final = 8 * 1024 * 1024
_FETCH_BYTES: Final = 1024 * 1024
_LATEST_PARTITIONS_MAX: Final = 24
_TEXT_MAX: Final = 4_000
_SPANS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Search:
    """The parameters of a search for records, from the query."""

    partition: int | None
    offset: int | None
    time_ms: int | None
    key: str | None
    is_following: bool

    @classmethod
    def of(cls, visit: Visit) -> Search:
        time_ms = None
        if visit.query.get("time", "").strip():
            try:
                time_ms = timestamp_of(visit.query["time"].strip())
            except ValueError as error:
                raise InvalidRequest(str(error)) from None
        return cls(
            visit.number("partition"),
            visit.number("offset"),
            time_ms,
            visit.query.get("key") or None,
            visit.query.get("follow") == "1",
        )

    @property
    def is_latest(self) -> bool:
        return self.offset is None and self.time_ms is None and self.key is None

    @property
    def time(self) -> str:
        return time_text(self.time_ms) or ""


@dataclass(frozen=True, slots=True)
class ShownText:
    """A key or a value as a page shows it. ``kind`` is text, json, hex or none.

    ``size_bytes`` is its size before it was cut. If the bytes name a schema, ``said`` is that schema, or the reason why
    they are not decoded with it.
    """

    kind: str
    text: str
    size_bytes: int
    is_cut: bool
    said: str | None = None


@dataclass(frozen=True, slots=True)
class ShownRecord:
    partition: int
    offset: int
    time: str | None
    kind: str
    marker: str | None
    key: ShownText
    value: ShownText
    headers: list[tuple[str, ShownText]]


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search. ``next_offset`` is where to continue a search in one partition before its end.

    ``aborted`` has, by partition, the first and last offsets of spans of aborted records among all records that were
    read, including those that are not shown.
    """

    records: Sequence[ShownRecord]
    next_offset: int | None = None
    said: str | None = None
    aborted: Mapping[int, Sequence[tuple[int, int]]] = field(default_factory=dict)


def found_records(
    connection: Connection, partitions: Sequence[TopicPartition], search: Search, schemas: SchemaRegistry | None
) -> Found:
    """Return the records of the partition that the search names, or of all. ``schemas`` decode the values that name
    one."""
    if search.partition is not None:
        partitions = [one for one in partitions if one.partition == search.partition]
        if not partitions:
            return Found((), said=f"There is no partition {search.partition}, or it has no leader.")
    try:
        if search.is_latest:
            return _latest(connection, partitions, schemas)
        return _searched(connection, partitions, search, schemas)
    except KafkaError as error:
        return Found((), said=str(error))  # The rest of the page is shown to users without the right to read, too.


def _latest(connection: Connection, partitions: Sequence[TopicPartition], schemas: SchemaRegistry | None) -> Found:
    said = None
    if len(partitions) > _LATEST_PARTITIONS_MAX:
        said = f"The first {_LATEST_PARTITIONS_MAX} of {len(partitions)} partitions; choose one to see others."
        partitions = partitions[:_LATEST_PARTITIONS_MAX]
    ends = cached_requests.ends(connection, partitions)
    found: list[MarkedRecord] = []
    for partition in partitions:
        if partition not in ends:
            continue
        at = ends[partition]
        first = max(at.start, at.end - SHOWN_MAX)
        kept = connection.answers.get(
            ("latest", partition, first, at.end, at.stable),
            60.0,
            lambda partition=partition, first=first, at=at: list(_read(connection, partition, first, at)),  # type: ignore[misc]
        )
        found += kept[-SHOWN_MAX:]
    aborted = _aborted(found)
    found.sort(key=lambda one: (one.record.timestamp, one.record.offset), reverse=True)
    return Found([shown(one, schemas) for one in found[:SHOWN_MAX]], said=said, aborted=aborted)


def _aborted(records: Iterable[MarkedRecord]) -> dict[int, list[tuple[int, int]]]:
    """Return the first ``_SPANS_MAX`` spans of aborted records of each partition: a chart has no room for more.

    ``records`` has those of each partition in the order of their offsets.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    for one in records:
        if one.kind == ABORTED:
            spans = found.setdefault(one.partition, [])
            offset = one.record.offset
            if spans and spans[-1][1] + 1 == offset:
                spans[-1] = (spans[-1][0], offset)
            elif len(spans) < _SPANS_MAX:
                spans.append((offset, offset))
    return found


def _searched(
    connection: Connection, partitions: Sequence[TopicPartition], search: Search, schemas: SchemaRegistry | None
) -> Found:
    ends = cached_requests.ends(connection, partitions)
    starts = {one: ends[one].start for one in partitions if one in ends}
    if search.time_ms is not None:
        listed = connection.admin.partitions.list_offsets(dict.fromkeys(starts, search.time_ms)).succeeded
        starts = {one: found.offset for one, found in listed.items() if found.offset is not None}
    elif search.offset is not None:
        starts = {one: max(first, search.offset) for one, first in starts.items() if search.offset < ends[one].end}
    shown_records: list[ShownRecord] = []
    budget = READ_BYTES_MAX
    go_on: int | None = None
    looked: list[str] = []
    aborted: list[MarkedRecord] = []
    for partition, first in starts.items():
        last = first
        for one in _read(connection, partition, first, ends[partition]):
            last = one.record.offset + 1
            if one.kind == ABORTED:
                aborted.append(one)
            budget -= len(one.record.value or b"") + len(one.record.key or b"") + 60
            if search.key is None or _key_text(one) == search.key:
                shown_records.append(shown(one, schemas))
            if len(shown_records) >= SHOWN_MAX or budget <= 0:
                break
        looked.append(f"{partition.partition}:{first}-{last}")
        if len(shown_records) >= SHOWN_MAX or budget <= 0:
            go_on = last if last < ends[partition].end and len(starts) == 1 else None
            break
    said = None
    if search.key is not None:
        said = f"Looked at the offsets {', '.join(looked) or 'of nothing'} for the key {search.key!r}."
        if budget <= 0 and len(starts) > 1:
            said += " Choose one partition to look further."
    elif not starts:
        said = "There is no record as late as that."
    return Found(shown_records, go_on, said, _aborted(aborted))


def _read(
    connection: Connection, partition: TopicPartition, offset: int, ends: cached_requests.Ends
) -> Iterator[MarkedRecord]:
    """Yield the records from an offset to the end of the partition, each with its kind."""
    admin = connection.admin
    open_since = _open_since(connection, partition) if ends.unstable_count else {}
    while offset < ends.end:
        raw = admin.partitions.read_batches(partition, offset, max_bytes=_FETCH_BYTES)
        # A response lists aborted transactions only for a read_committed Fetch, which ends at the last stable offset.
        aborted = raw.aborted
        if offset < raw.last_stable_offset:
            aborted = admin.partitions.read_batches(partition, offset, stable_only=True, max_bytes=_FETCH_BYTES).aborted
        next_offset = offset
        for marked, batch_end in mark_records(partition, raw.records, aborted, raw.last_stable_offset, open_since):
            next_offset = batch_end
            if marked is not None and offset <= marked.record.offset < ends.end:
                yield marked
        if next_offset <= offset:
            return  # Compaction has left no batch up to the end.
        offset = next_offset


def _open_since(connection: Connection, partition: TopicPartition) -> dict[int, int]:
    def ask() -> tuple[ProducerState, ...]:
        return connection.admin.partitions.describe_producers([partition]).succeeded.get(partition, ())

    states = connection.answers.get(("producers", partition), cached_requests.FRESH_S, ask)
    return {
        state.producer_id: state.transaction_start_offset
        for state in states
        if state.transaction_start_offset is not None
    }


def shown(marked: MarkedRecord, schemas: SchemaRegistry | None) -> ShownRecord:
    fields: dict[str, Any] = marked.as_dict()
    return ShownRecord(
        marked.partition,
        marked.record.offset,
        fields["time"],
        marked.kind,
        marked.marker,
        _shown_text(fields["key"], schemas),
        _shown_text(fields["value"], schemas),
        [(name, _shown_text(value)) for name, value in fields["headers"]],
    )


def _key_text(marked: MarkedRecord) -> str | None:
    key = marked.record.key
    return None if key is None or marked.kind not in (DATA, OPEN, WAITING, ABORTED) else key.decode("utf-8", "replace")


def _shown_text(value: bytes | dict[str, Any] | None, schemas: SchemaRegistry | None = None) -> ShownText:
    if value is None:
        return ShownText("none", "", 0, False)
    if isinstance(value, dict):  # A record of an internal topic, decoded.
        return _shown_json(value)
    named = None if schemas is None else schema_id_of(value)
    if schemas is not None and named is not None:
        return _with_schema(value, named, schemas)
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return ShownText("hex", value[: _TEXT_MAX // 2].hex(" "), len(value), len(value) > _TEXT_MAX // 2)
    if any(ord(letter) < 32 and letter not in "\t\n\r" for letter in text):
        return ShownText("hex", value[: _TEXT_MAX // 2].hex(" "), len(value), len(value) > _TEXT_MAX // 2)
    if text[:1] in ("{", "[") and len(text) <= _TEXT_MAX:
        try:
            return ShownText("json", json.dumps(json.loads(text), indent=2, ensure_ascii=False), len(value), False)
        except (ValueError, RecursionError):
            pass
    return ShownText("text", text[:_TEXT_MAX], len(value), len(text) > _TEXT_MAX)


def _with_schema(value: bytes, schema_id: int, schemas: SchemaRegistry) -> ShownText:
    """Return a value of Confluent's wire format decoded; or undecoded, with the reason, if that cannot be done."""
    payload = value[FRAME_BYTES:]
    try:
        schema = schemas.schema(schema_id)
        if schema.avro is not None:
            return replace(_shown_json(schema.avro.decoded(payload)), said=f"Avro, schema {schema_id}")
        if schema.kind == "JSON":
            return replace(_shown_text(payload), said=f"JSON, schema {schema_id}")
        why_not = f"values of {schema.kind} are not decoded"
    except (NoSchema, NotDecoded) as error:
        why_not = str(error)
    return replace(_shown_text(value), said=f"schema {schema_id}: {why_not}")


def _shown_json(value: Any) -> ShownText:
    text = json.dumps(value, indent=2, ensure_ascii=False, default=_as_text)
    return ShownText("json", text[:_TEXT_MAX], len(text), len(text) > _TEXT_MAX)


def _as_text(value: object) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
