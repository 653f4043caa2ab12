"""Reading and printing for ``semel consume``: as a group member, or from raw batches, in which each record is marked as
data, aborted, or control."""

from __future__ import annotations

import argparse
import json
import sys
from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from semel.cli.terminal.interruption import interruptible
from semel.cli.terminal.output import is_colourful, say, shown
from semel.errors import ErrorCode, KafkaError
from semel.inspection.marked_records import ABORTED, DATA, OPEN, MarkedRecord, mark_records
from semel.inspection.offsets import offsets_at, offsets_where_known
from semel.types import TopicPartition
from semel.wire.records import Record

if TYPE_CHECKING:
    from semel.blocking import Admin, Consumer

_DIM: Final = "\033[2m"
_PLAIN: Final = "\033[0m"


class Printer:
    """Prints records up to a maximum number, and says when it is reached."""

    def __init__(self, format_name: str, count_max: int | None) -> None:
        self._format = format_name
        self._colour = is_colourful(sys.stdout)
        self.left = count_max
        self.count = 0

    @property
    def has_enough(self) -> bool:
        return self.left is not None and self.left <= 0

    def show(self, marked: MarkedRecord) -> None:
        if self.has_enough:
            return
        if self.left is not None:
            self.left -= 1
        self.count += 1
        if self._format == "raw":
            sys.stdout.flush()
            sys.stdout.buffer.write((marked.record.value or b"") + b"\n")
            sys.stdout.buffer.flush()
            return
        line = self._line(marked)
        if self._colour and marked.kind != DATA:
            line = f"{_DIM}{line}{_PLAIN}"
        print(line, flush=True)

    def _line(self, marked: MarkedRecord) -> str:
        fields = marked.as_dict()
        if self._format == "json":
            return json.dumps(fields, default=shown, ensure_ascii=False)
        mark = (
            ""
            if marked.kind == DATA
            else f"[{marked.marker or marked.kind} {marked.partition}:{marked.record.offset}] "
        )
        if "{" in self._format:
            return mark + self._format.format(**{name: shown(value) for name, value in fields.items()})
        if self._format in ("hex", "base64"):
            value = marked.record.value or b""
            return mark + (value.hex() if self._format == "hex" else b64encode(value).decode())
        if isinstance(fields["value"], dict) or isinstance(fields["key"], dict):
            return mark + json.dumps({"key": fields["key"], "value": fields["value"]}, default=shown)
        if marked.marker is not None:
            return mark.rstrip()
        if self._format == "key-value":
            return f"{mark}{shown(marked.record.key)}\t{shown(marked.record.value)}"
        return mark + shown(marked.record.value)


def consume_partitions(options: argparse.Namespace, settings: Mapping[str, Any], start: tuple[str, int | None]) -> None:
    from semel.blocking import Admin

    printer = Printer(options.format, options.max)
    with Admin(**settings) as admin:
        partitions = _partitions(admin, options.topic, options.partition)
        positions = _positions(admin, partitions, start)
        begun_at = dict(positions)
        ends = {} if options.follow else _ends(admin, partitions, options.isolation)
        is_committed = options.isolation == "read_committed"
        while not printer.has_enough:
            unfinished = [at for at in partitions if options.follow or positions[at] < ends[at]]
            if not unfinished:
                break
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
        if not printer.count:
            say(f"nothing to show: {_why_nothing(admin, options.topic, begun_at, ends)}")


def _why_nothing(
    admin: Admin, topic: str, begun_at: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> str:
    from semel.client.admin.partitions import OffsetSpec

    firsts = offsets_at(admin, begun_at, OffsetSpec.EARLIEST)
    lasts = offsets_at(admin, begun_at, OffsetSpec.LATEST)
    if firsts == lasts:
        return f"{topic} has no records"
    if all(begun_at[partition] >= last for partition, last in lasts.items()):
        return f"there are no records of {topic} from there on; --from beginning shows those before"
    if any(ends[partition] < last for partition, last in lasts.items()):
        return f"what {topic} has belongs to open transactions; --isolation read_uncommitted shows it"
    return f"{topic} has only control records and aborted ones there; --show-control shows them"


def consume_as_member(options: argparse.Namespace, settings: Mapping[str, Any]) -> None:
    """Poll records as a member of a group and print them. The offsets of printed records are committed, also after an
    interruption."""
    from semel.blocking import Admin, Consumer

    printer = Printer(options.format, options.max)
    reset = "earliest" if options.start == "beginning" else "latest"
    with Admin(**settings) as admin:
        admin.topics.describe(options.topic)  # Raises if topic or broker is missing: a member would wait in silence.
        _say_what_is_skipped(admin, options.group, options.topic, reset)
    with (
        interruptible() as interruption,
        Consumer(
            **settings, group_id=options.group, isolation_level=options.isolation, auto_offset_reset=reset
        ) as consumer,
    ):
        consumer.subscribe([options.topic])
        idle = 0
        while not (printer.has_enough or interruption.was_signalled) and (options.follow or idle < _IDLE_POLLS_MAX):
            # Not more records than will be printed, because all polled records are committed.
            records = consumer.poll(500, max_records=printer.left)
            idle = 0 if records else idle + 1
            for got in records:
                record = Record(got.offset, got.timestamp, got.key, got.value, tuple(got.headers))
                printer.show(MarkedRecord(got.topic, got.partition, record))
            if not (records or options.follow) and _is_at_the_end(consumer):
                break
    if not printer.count and not interruption.was_signalled:
        say(f"nothing to show: group {options.group} has read all that there is, or others have its partitions")


def _say_what_is_skipped(admin: Admin, group: str, topic: str, reset: str) -> None:
    """Print where the group's committed offsets are outside of the log, and where the consumer continues instead.

    The consumer itself resets its position without a message.
    """
    from semel.client.admin.partitions import OffsetSpec

    committed = {at: offset.offset for at, offset in admin.groups.list_offsets(group).items() if at.topic == topic}
    firsts = offsets_where_known(admin, committed, OffsetSpec.EARLIEST)
    lasts = offsets_where_known(admin, committed, OffsetSpec.LATEST)
    for at, offset in sorted(committed.items()):
        first, last = firsts.get(at), lasts.get(at)
        if first is None or last is None or first <= offset <= last:
            continue
        goes_on = first if reset == "earliest" else last
        skipped = f"{goes_on - offset} offsets are skipped" if goes_on > offset else "records are read again"
        say(
            f"{at.topic}:{at.partition}: the committed offset {offset} is not there, {skipped}: it goes on at {goes_on}"
        )


def _is_at_the_end(consumer: Consumer) -> bool:
    positions = consumer.positions()
    if not consumer.assignment or positions.keys() != set(consumer.assignment):
        return False  # It has not joined yet, or does not know its positions yet.
    return all(positions[partition].offset >= end for partition, end in consumer.end_offsets(positions).items())


# A member ends after so many polls without records, for example if other members have all partitions.
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
            for at in partitions:
                if number < (first := firsts[at]):
                    say(f"{at.topic}:{at.partition}: {first - number} offsets are skipped, it begins at {first}")
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
    """Print the records of one Fetch. Returns the offset of the next Fetch."""
    raw = admin.partitions.read_batches(partition, offset, stable_only=is_committed)
    aborted = raw.aborted
    if not is_committed and shows_control:
        # A Fetch response lists aborted transactions only with read_committed.
        aborted = admin.partitions.read_batches(partition, offset, stable_only=True).aborted
    next_offset = offset
    for marked, batch_end in mark_records(partition, raw.records, aborted, raw.last_stable_offset):
        next_offset = batch_end
        if marked is None or marked.record.offset < offset or (end is not None and marked.record.offset >= end):
            continue
        if marked.kind == DATA or shows_control or (marked.kind in (ABORTED, OPEN) and not is_committed):
            printer.show(marked)
            if printer.has_enough:
                break
    if next_offset == offset and end is not None:
        return end  # There are no more records before the end: compaction has removed them.
    return next_offset
