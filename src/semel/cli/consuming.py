"""Reading for ``semel consume``: raw batches, and for each record whether it is data, aborted, or control."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from semel.cli.internal_records import decoded
from semel.cli.offsets import offsets_at
from semel.cli.output import is_colourful, shown, time_text
from semel.client.machine.consumer.fetched import visible_batches
from semel.errors import ErrorCode, KafkaError
from semel.types import TopicPartition
from semel.wire.control import parse_marker
from semel.wire.messages.fetch import AbortedTransaction
from semel.wire.records import Record, iterate_headers, iterate_records

if TYPE_CHECKING:
    from semel.blocking import Admin, Consumer

DATA: Final = "data"
ABORTED: Final = "aborted"
OPEN: Final = "open"
CONTROL: Final = "control"

_DIM: Final = "\033[2m"
_PLAIN: Final = "\033[0m"


@dataclass(frozen=True, slots=True)
class Seen:
    """One record and what it is."""

    topic: str
    partition: int
    record: Record
    kind: str = DATA
    marker: str | None = None

    def as_dict(self) -> dict[str, Any]:
        record = self.record
        fields: dict[str, Any] = {
            "topic": self.topic,
            "partition": self.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "time": time_text(record.timestamp),
            "key": record.key,
            "value": record.value,
            "headers": [list(header) for header in record.headers],  # A name may stand there twice.
            "kind": self.kind,
        }
        if self.marker is not None:
            fields |= {"key": None, "value": None, "marker": self.marker}
        meaning = decoded(self.topic, record.key, record.value) if self.marker is None else None
        if meaning is not None:
            fields |= meaning
        return fields


class Printer:
    """Prints records, and says when there are enough."""

    def __init__(self, format_name: str, count_max: int | None) -> None:
        self._format = format_name
        self.left = count_max
        self._colour = is_colourful(sys.stdout)

    @property
    def has_enough(self) -> bool:
        return self.left is not None and self.left <= 0

    def show(self, seen: Seen) -> None:
        if self.has_enough:
            return
        if self.left is not None:
            self.left -= 1
        line = self._line(seen)
        if self._colour and seen.kind != DATA:
            line = f"{_DIM}{line}{_PLAIN}"
        print(line, flush=True)

    def _line(self, seen: Seen) -> str:
        fields = seen.as_dict()
        if self._format == "json":
            return json.dumps(fields, default=shown, ensure_ascii=False)
        mark = "" if seen.kind == DATA else f"[{seen.marker or seen.kind} {seen.partition}:{seen.record.offset}] "
        if isinstance(fields["value"], dict) or isinstance(fields["key"], dict):
            return mark + json.dumps({"key": fields["key"], "value": fields["value"]}, default=shown)
        if seen.marker is not None:
            return mark.rstrip()
        if self._format == "key-value":
            return f"{mark}{shown(seen.record.key)}\t{shown(seen.record.value)}"
        return mark + shown(seen.record.value)


def consume_partitions(options: argparse.Namespace, settings: Mapping[str, Any], start: tuple[str, int | None]) -> None:
    from semel.blocking import Admin

    printer = Printer(options.format, options.max)
    with Admin(**settings) as admin:
        partitions = _partitions(admin, options.topic, options.partition)
        positions = _positions(admin, partitions, start)
        ends = {} if options.follow else _ends(admin, partitions, options.isolation)
        is_committed = options.isolation == "read_committed"
        while not printer.has_enough:
            unfinished = [at for at in partitions if options.follow or positions[at] < ends[at]]
            if not unfinished:
                return
            for partition in unfinished:
                positions[partition] = _pass(
                    admin,
                    partition,
                    positions[partition],
                    ends.get(partition),
                    printer,
                    is_committed,
                    options.show_control,
                )


def consume_as_member(options: argparse.Namespace, settings: Mapping[str, Any]) -> None:
    from semel.blocking import Admin, Consumer

    printer = Printer(options.format, options.max)
    reset = "earliest" if options.start == "beginning" else "latest"
    with Admin(**settings) as admin:
        admin.topics.describe(options.topic)  # A member would wait for a topic, and for brokers, without a word.
    with Consumer(
        **settings, group_id=options.group, isolation_level=options.isolation, auto_offset_reset=reset
    ) as consumer:
        consumer.subscribe([options.topic])
        idle = 0
        while not printer.has_enough and (options.follow or idle < _IDLE_POLLS_MAX):
            # No more than is shown: what was polled is committed.
            records = consumer.poll(500, max_records=printer.left)
            idle = 0 if records else idle + 1
            for got in records:
                record = Record(got.offset, got.timestamp, got.key, got.value, tuple(got.headers))
                printer.show(Seen(got.topic, got.partition, record))
            if not (records or options.follow) and _is_at_the_end(consumer):
                return


def _is_at_the_end(consumer: Consumer) -> bool:
    positions = consumer.positions()
    if not consumer.assignment or positions.keys() != set(consumer.assignment):
        return False  # It has yet to join, or to learn where to begin.
    return all(positions[partition].offset >= end for partition, end in consumer.end_offsets(positions).items())


# A member that is given no partitions, because others have them all, ends after so many polls.
_IDLE_POLLS_MAX: Final = 20


def _partitions(admin: Admin, topic: str, wanted: list[int] | None) -> list[TopicPartition]:
    there = [partition.partition for partition in admin.topics.describe(topic).partitions]
    for index in wanted or ():
        if index not in there:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic} has no partition {index}; it has {len(there)}"
            )
    return [TopicPartition(topic, index) for index in wanted or there]


def _positions(
    admin: Admin, partitions: list[TopicPartition], start: tuple[str, int | None]
) -> dict[TopicPartition, int]:
    from semel.client.admin.partitions import OffsetSpec

    kind, number = start
    firsts = offsets_at(admin, partitions, OffsetSpec.EARLIEST)
    lasts = offsets_at(admin, partitions, OffsetSpec.LATEST)
    match kind:
        case "beginning":
            return firsts
        case "end":
            return lasts
        case "offset":
            assert number is not None
            return {at: max(firsts[at], min(number, lasts[at])) for at in partitions}
        case _:
            assert number is not None
            return {**lasts, **offsets_at(admin, partitions, number)}


def _ends(admin: Admin, partitions: list[TopicPartition], isolation: str) -> dict[TopicPartition, int]:
    from semel.client.admin.partitions import OffsetSpec

    return offsets_at(admin, partitions, OffsetSpec.LATEST, isolation)


def _pass(
    admin: Admin,
    partition: TopicPartition,
    offset: int,
    end: int | None,
    printer: Printer,
    is_committed: bool,
    shows_control: bool,
) -> int:
    """Show what one Fetch brings; returns where to go on."""
    raw = admin.partitions.read_batches(partition, offset, stable_only=is_committed)
    aborted = raw.aborted
    if not is_committed and shows_control:
        # Which of them were aborted is only told to those who read no further than the last stable offset.
        aborted = admin.partitions.read_batches(partition, offset, stable_only=True).aborted
    next_offset = offset
    for seen, batch_end in _marked(partition, raw.records, aborted, raw.last_stable_offset):
        next_offset = batch_end
        if seen is None or seen.record.offset < offset or (end is not None and seen.record.offset >= end):
            continue
        if seen.kind == DATA or shows_control or (seen.kind in (ABORTED, OPEN) and not is_committed):
            printer.show(seen)
            if printer.has_enough:
                break
    if next_offset == offset and end is not None:
        return end  # Compaction has left nothing up to there.
    return next_offset


def _marked(
    partition: TopicPartition, records: Any, aborted: tuple[tuple[int, int], ...], last_stable_offset: int
) -> Iterator[tuple[Seen | None, int]]:
    """Every record with what it is, and the end of its batch; ``None`` for a batch that compaction has emptied."""
    headers = list(iterate_headers(records, allow_partial_tail=True))
    transactions = [AbortedTransaction(*one) for one in aborted]
    visible = {position for position, _ in visible_batches(records, headers, transactions)}
    for position, header in headers:
        kind, marker = DATA, None
        if header.is_control:
            found = parse_marker(records, position)
            kind, marker = CONTROL, "control" if found is None else "commit" if found.committed else "abort"
        elif position not in visible:
            kind = ABORTED
        elif header.is_transactional and header.base_offset >= last_stable_offset:
            kind = OPEN
        is_empty = True
        for record in iterate_records(records, position):
            is_empty = False
            yield Seen(*partition, record, kind, marker), header.next_offset
        if is_empty:
            yield None, header.next_offset
