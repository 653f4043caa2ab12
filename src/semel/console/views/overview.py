"""The overview page: brokers, rates, and problems that an operator should look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from semel.admin import TopicDescription, TransactionDescription
from semel.console import cached_requests
from semel.console.connections import Connection
from semel.console.pages import Page, Visit, link
from semel.console.paging import ROWS_MAX
from semel.console.texts import span

LONG_OPEN_MS: Final = 60_000
_NAMED_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Concern:
    """A problem that an operator should look at. ``tone`` is its severity: bad, warn, calm."""

    tone: str
    title: str
    text: str
    address: str


def overview(visit: Visit) -> Page:
    connection = visit.connection
    cluster = cached_requests.cluster(connection)
    described = cached_requests.all_described(connection)
    measured = cached_requests.sample_rates(connection)
    transactions = cached_requests.transactions(connection)
    opened = cached_requests.open_transactions(connection)
    groups = cached_requests.groups(connection)
    user_topics = [topic for topic in described.values() if not topic.is_internal]
    begun = [found for found in opened.values() if found.start_time_ms is not None]
    oldest = min(begun, key=lambda found: found.start_time_ms or 0, default=None)
    concerns = list(_concerns(connection, described, opened, visit.now_ms))
    return Page(
        "overview.html",
        "Overview",
        "overview",
        {
            "cluster": cluster,
            "topic_count": len(user_topics),
            "partition_count": sum(len(topic.partitions) for topic in user_topics),
            "group_count": len(groups),
            "rate": connection.rates.now() if measured else None,
            "series": connection.rates.series(),
            "measured": measured,
            "transaction_count": len(transactions),
            "open_count": sum(cached_requests.is_open(listing.state) for listing in transactions),
            "oldest": oldest,
            "oldest_ms": None if oldest is None else visit.now_ms - (oldest.start_time_ms or 0),
            "concerns": concerns[:ROWS_MAX],
            "more_concerns": max(len(concerns) - ROWS_MAX, 0),
        },
    )


def _concerns(
    connection: Connection,
    described: Mapping[str, TopicDescription],
    opened: Mapping[str, TransactionDescription],
    now_ms: int,
) -> Iterator[Concern]:
    states = [(topic.name, state) for topic in described.values() for state in topic.partitions]
    leaderless = [f"{topic}:{state.partition}" for topic, state in states if state.leader is None]
    if leaderless:
        yield Concern("bad", f"{len(leaderless)} partitions have no leader", _some(leaderless), link("cluster"))
    behind = [f"{topic}:{state.partition}" for topic, state in states if len(state.in_sync) < len(state.replicas)]
    if behind:
        yield Concern("warn", f"{len(behind)} partitions lack in-sync replicas", _some(behind), link("cluster"))
    for found in sorted(opened.values(), key=lambda found: found.start_time_ms or now_ms):
        age_ms = now_ms - (found.start_time_ms or now_ms)
        if age_ms >= LONG_OPEN_MS:
            yield Concern(
                "warn",
                f"{found.transactional_id} has been open for {span(age_ms)}",
                f"It holds up read_committed readers of {_some([f'{t}:{p}' for t, p in found.partitions])}; "
                f"its coordinator aborts it after {span(found.timeout_ms)}.",
                link("transaction", id=found.transactional_id),
            )
    for group in cached_requests.groups(connection):
        if group.state in ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"):
            yield Concern(
                "calm", f"group {group.group_id} is rebalancing", group.state, link("group", id=group.group_id)
            )


def _some(names: list[str]) -> str:
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
