"""The pages that reset a group's offsets: first a preview that changes nothing, then, from the preview, the change."""

from __future__ import annotations

from dataclasses import dataclass

from semel.console.pages import InvalidRequest, Page, Visit, link
from semel.console.paging import sliced
from semel.console.texts import command, option
from semel.errors import KafkaError
from semel.inspection.group_offsets import ResetTo, reset_destinations
from semel.inspection.times import timestamp_of
from semel.types import TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetChange:
    partition: TopicPartition
    before: int | None
    after: int


def preview(visit: Visit) -> Page:
    """Show which offsets a reset would set, without changing anything."""
    group, topic = visit.name("id"), visit.query.get("topic", "")
    to, number, words = _destination(visit)
    moves = _moves(visit, group, topic, to, number)
    values = {
        "group": group,
        "topic": topic,
        "to": to.value,
        "value": visit.query.get("value", ""),
        "part": sliced(visit, "group/reset", moves),
        "line": command("group", "reset-offsets", name=group, options=[*_which(topic), *words]),
        "said": None,
    }
    return Page("group_reset.html", f"Reset {group}", "groups", values, live_every_s=None)


def reset(visit: Visit) -> Page:
    """Set the offsets and redirect to the group's page; show the error if the group has members, for example."""
    group, topic = visit.name("id"), visit.query.get("topic", "")
    to, number, _ = _destination(visit)
    wanted = {move.partition: move.after for move in _moves(visit, group, topic, to, number)}
    try:
        visit.connection.admin.groups.alter_offsets(group, wanted).all()
    except KafkaError as error:
        page = preview(visit)
        said = f"{error}. A group is reset while it has no members: stop its consumers first."
        return Page(page.template, page.title, page.place, {**page.values, "said": said}, None, 409)
    visit.connection.answers.clear()
    return Page("group_reset.html", group, "groups", go_to=link("group", id=group))


def _destination(visit: Visit) -> tuple[ResetTo, int | None, list[str]]:
    """Return the destination of the reset, its number, and the same as options of the command line."""
    value = visit.query.get("value", "").strip()
    try:
        to = ResetTo(visit.query.get("to", "earliest"))
    except ValueError:
        raise InvalidRequest(
            f"to {visit.query.get('to')!r}: it is one of {', '.join(one.value for one in ResetTo)}"
        ) from None
    match to:
        case ResetTo.EARLIEST | ResetTo.LATEST | ResetTo.CURRENT:
            return to, None, [f"--to-{to.value}"]
        case ResetTo.TIME:
            try:
                return to, timestamp_of(value), ["--to-datetime", value]
            except ValueError as error:
                raise InvalidRequest(str(error)) from None
        case ResetTo.OFFSET | ResetTo.SHIFT:
            if not value.removeprefix("-").isdecimal() or not value.isascii() or len(value) > 19:
                raise InvalidRequest(f"{to.value} {value!r}: it is a whole number")
            # With =, because a negative number begins with a dash.
            return to, int(value), [f"--to-offset={value}" if to is ResetTo.OFFSET else f"--shift-by={value}"]


def _which(topic: str) -> list[str]:
    return option("--topic", topic) if topic else ["--all-topics"]


def _moves(visit: Visit, group: str, topic: str, to: ResetTo, number: int | None) -> list[OffsetChange]:
    admin = visit.connection.admin
    current = admin.groups.list_offsets(group)
    partitions = sorted(current)
    if topic:
        partitions = [TopicPartition(topic, one.partition) for one in admin.topics.describe(topic).partitions]
    try:
        wanted = reset_destinations(admin, partitions, current, to, number)
    except ValueError as error:
        raise InvalidRequest(str(error)) from None
    return [
        OffsetChange(partition, current[partition].offset if partition in current else None, after)
        for partition, after in sorted(wanted.items())
    ]
