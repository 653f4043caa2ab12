"""The idempotent producers that a partition remembers."""

from __future__ import annotations

from semel.console import questions
from semel.console.pages import Page, Visit, Wrong
from semel.console.paging import sliced
from semel.types import TopicPartition


def producers(visit: Visit) -> Page:
    connection = visit.connection
    name, index = visit.name("topic"), visit.number("partition")
    if index is None:
        raise Wrong("this address lacks its partition")
    partition = TopicPartition(name, index)
    states = connection.answers.get(
        ("described producers", partition),
        questions.FRESH_S,
        lambda: connection.admin.partitions.describe_producers([partition])[partition],
    )
    ids = {listing.producer_id: listing.transactional_id for listing in questions.transactions(connection)}
    ordered = sorted(states, key=lambda state: (state.transaction_start_offset is None, -(state.last_timestamp or 0)))
    values = {
        "partition": partition,
        "part": sliced(visit, "producers", ordered),
        "ids": ids,
        "now_ms": visit.now_ms,
        "open_count": sum(state.transaction_start_offset is not None for state in states),
    }
    return Page("producers.html", f"Producers of {name}:{index}", "topics", values)
