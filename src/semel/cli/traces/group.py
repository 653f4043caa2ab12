"""The output of ``semel group trace``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from semel.cli.terminal.output import print_facts, print_json, print_rows
from semel.inspection.compaction_gaps import since_text
from semel.inspection.group_trace import GroupEvent, GroupTrace


def print_group_trace(found: GroupTrace, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(found))
        return
    print_facts({"group": found.group, "complete": since_text(found.complete_since, "its first record")}, as_json=False)
    print()
    rows = [row for event in found.events for row in _rows(event)]
    columns = ("time", "event", "generation", "assignor", "member", "partitions", "commits")
    print_rows(rows, columns, as_json=False, empty="no generation is left in the log")
    if found.commits:
        print(f"\n{found.commits} offsets committed since")


def _rows(event: GroupEvent) -> Iterator[dict[str, Any]]:
    """Yield one row for an event and its first member, and one for each further member. The leader has a star."""
    first = {
        "time": event.time,
        "event": event.event,
        "generation": event.generation,
        "assignor": event.assignor,
        "commits": event.commits or None,
    }
    if not event.members:
        yield first
    for number, member in enumerate(event.members):
        star = " *" if member.member_id == event.leader else ""
        told = {"member": member.member_id + star, "partitions": member.partitions}
        yield {**first, **told} if number == 0 else {"time": "", "event": "", "assignor": "", **told}
