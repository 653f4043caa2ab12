"""The page of all groups, and the page of one: members, their partitions, offsets and lag, generations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from semel.admin import GroupListing
from semel.console import cached_requests
from semel.console.lags import Lag, LagCounter, total
from semel.console.pages import Page, Visit
from semel.console.paging import ROWS_MAX, matches, sliced
from semel.console.views.generations import past_of
from semel.inspection.group_offsets import GroupOffset, offsets_beside, owners_of
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
    every = cached_requests.groups(connection)
    state = visit.query.get("state", "")
    listed = [group for group in every if matches(visit, group.group_id) and state in ("", group.state)]
    part = sliced(visit, "groups", listed)
    names = tuple(group.group_id for group in part.rows)
    described = connection.answers.get(
        ("groups described", names),
        cached_requests.FRESH_S,
        lambda: connection.admin.groups.describe_many(names).succeeded,
    )
    committed = cached_requests.committed(connection) or {}
    ends = cached_requests.ends(connection, {one for name in names for one in committed.get(name, ())})
    counter = LagCounter(connection)
    rows = [
        GroupRow(
            group,
            len(described[group.group_id].members) if group.group_id in described else None,
            tuple(sorted({one.topic for one in committed.get(group.group_id, ())})),
            counter.group_lag(committed[group.group_id], ends) if group.group_id in committed else None,
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
        ("group", name), cached_requests.FRESH_S, lambda: connection.admin.groups.describe(name)
    )
    committed = connection.answers.get(
        ("group offsets", name), cached_requests.FRESH_S, lambda: connection.admin.groups.list_offsets(name)
    )
    ends = cached_requests.ends(connection, {*committed, *owners_of(description)})
    offsets = offsets_beside(
        description,
        committed,
        {partition: one.start for partition, one in ends.items()},
        {partition: one.end for partition, one in ends.items()},
    )
    members = sliced(visit, "group", description.members)
    part = sliced(visit, "group", offsets, parameter="offsets")
    counter = LagCounter(connection)
    # The lags of the rows that are shown are counted first, because the counter makes a limited number of counts.
    rows = [OffsetRow(found, _lag(counter, found, ends)) for found in part.rows]
    lags = [_lag(counter, found, ends) for found in offsets]
    return Page(
        "group.html",
        name,
        "groups",
        {
            "group": description,
            "members": members,
            "part": part,
            "rows": rows,
            "lag": total(lag for lag in lags if lag is not None),
            "topics": sorted({found.partition.topic for found in offsets}),
            "topics_max": ROWS_MAX,
            "clients": {member.member_id: member.client_id for member in description.members},
            "past": past_of(visit, description),
        },
    )


def _lag(counter: LagCounter, found: GroupOffset, ends: Mapping[TopicPartition, cached_requests.Ends]) -> Lag | None:
    """Return the lag in one partition; ``None`` if the group has no offset in it, or one that no consumer can use."""
    if found.committed is None or found.trouble is not None or found.partition not in ends:
        return None
    return counter.lag_of(found.partition, found.committed, ends[found.partition])
