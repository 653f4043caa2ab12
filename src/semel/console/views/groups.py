"""The groups, and one of them: members, what each reads, offsets and lag."""

from __future__ import annotations

from dataclasses import dataclass

from semel.admin import GroupListing
from semel.console import lags, questions
from semel.console.connections import Connection
from semel.console.lags import Lag
from semel.console.pages import Page, Visit
from semel.console.paging import matches, sliced
from semel.inspection.group_offsets import GroupOffset, group_offsets
from semel.types import TopicPartition


@dataclass(frozen=True, slots=True)
class GroupRow:
    listing: GroupListing
    members: int | None
    topics: tuple[str, ...]
    lag: Lag | None


@dataclass(frozen=True, slots=True)
class OffsetRow:
    found: GroupOffset
    lag: Lag | None


def groups(visit: Visit) -> Page:
    connection = visit.connection
    every = questions.groups(connection)
    state = visit.query.get("state", "")
    listed = [group for group in every if matches(visit, group.group_id) and state in ("", group.state)]
    part = sliced(visit, "groups", listed)
    names = tuple(group.group_id for group in part.rows)
    described = connection.answers.get(
        ("groups described", names), questions.FRESH_S, lambda: connection.admin.groups.describe_many(names).succeeded
    )
    committed = questions.committed(connection) or {}
    ends = questions.ends(connection, {one for name in names for one in committed.get(name, ())})
    rows = [
        GroupRow(
            group,
            len(described[group.group_id].members) if group.group_id in described else None,
            tuple(sorted({one.topic for one in committed.get(group.group_id, ())})),
            lags.group_lag(connection, committed[group.group_id], ends) if group.group_id in committed else None,
        )
        for group in part.rows
    ]
    values = {
        "part": part,
        "rows": rows,
        "query": visit.query.get("q", ""),
        "state": state,
        "states": sorted({group.state for group in every if group.state}),
        "group_count": len(every),
    }
    return Page("groups.html", "Groups", "groups", values)


def group(visit: Visit) -> Page:
    connection = visit.connection
    name = visit.name("id")
    description = connection.answers.get(
        ("group", name), questions.FRESH_S, lambda: connection.admin.groups.describe(name)
    )
    offsets = connection.answers.get(
        ("group offsets", name, description),
        questions.FRESH_S,
        lambda: group_offsets(connection.admin, description, count_lag=_not_counted),
    )
    members = sliced(visit, "group", description.members)
    rows = _offset_rows(connection, offsets)
    return Page(
        "group.html",
        name,
        "groups",
        {
            "group": description,
            "members": members,
            "rows": rows,
            "lag": lags.total(row.lag for row in rows if row.lag is not None),
            "topics": sorted({row.found.partition.topic for row in rows}),
            "clients": {member.member_id: member.client_id for member in description.members},
        },
    )


def _not_counted(admin: object, partition: TopicPartition, offset: int) -> None:
    """Lag is counted with a limit, and kept: see ``lags``."""


def _offset_rows(connection: Connection, offsets: tuple[GroupOffset, ...]) -> list[OffsetRow]:
    ends = questions.ends(connection, [found.partition for found in offsets])
    return [
        OffsetRow(
            found,
            lags.lag_of(connection, found.partition, found.committed, ends[found.partition])
            if found.committed is not None and found.trouble is None and found.partition in ends
            else None,
        )
        for found in offsets
    ]
