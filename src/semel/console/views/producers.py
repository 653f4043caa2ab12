"""The page of the idempotent producers in a partition's producer state, each with its last batches from the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from semel.console import cached_requests
from semel.console.pages import InvalidRequest, Page, Visit
from semel.console.paging import sliced
from semel.errors import KafkaError
from semel.inspection.producer_window import TooMuchToRead, WindowBatch, windows_of
from semel.types import TopicPartition

OFFSETS_MAX: Final = 5_000
_READ_BYTES_MAX: Final = 8 * 1024 * 1024
_WINDOWS_FRESH_S: Final = 10.0


def producers(visit: Visit) -> Page:
    connection = visit.connection
    name, index = visit.name("topic"), visit.number("partition")
    if index is None:
        raise InvalidRequest("this address lacks its partition")
    partition = TopicPartition(name, index)
    states = connection.answers.get(
        ("described producers", partition),
        cached_requests.FRESH_S,
        lambda: connection.admin.partitions.describe_producers([partition])[partition],
    )
    ids = {listing.producer_id: listing.transactional_id for listing in cached_requests.transactions(connection)}
    ordered = sorted(states, key=lambda state: (state.transaction_start_offset is None, -(state.last_timestamp or 0)))
    part = sliced(visit, "producers", ordered)
    windows, trouble = _windows(visit, partition, {state.producer_id: state.producer_epoch for state in part.rows})
    values = {
        "partition": partition,
        "part": part,
        "ids": ids,
        "now_ms": visit.now_ms,
        "windows": windows,
        "trouble": trouble,
        "offsets_max": OFFSETS_MAX,
        "open_count": sum(state.transaction_start_offset is not None for state in states),
    }
    return Page("producers.html", f"Producers of {name}:{index}", "topics", values)


def _windows(
    visit: Visit, partition: TopicPartition, epochs: Mapping[int, int]
) -> tuple[Mapping[int, Sequence[WindowBatch]], str | None]:
    """Return the last batches by producer id, and the reason if they are not known."""
    admin = visit.connection.admin

    def read() -> Mapping[int, Sequence[WindowBatch]] | None:
        try:
            return windows_of(admin, partition, epochs, OFFSETS_MAX, _READ_BYTES_MAX)
        except TooMuchToRead:
            return None  # Cached like an answer, so that it is not tried again with every rendering of the page.

    try:
        question = ("windows", partition, tuple(sorted(epochs.items())))
        windows = visit.connection.answers.get(question, _WINDOWS_FRESH_S, read)
    except KafkaError as error:
        return {}, str(error)
    if windows is None:
        return {}, f"the last {OFFSETS_MAX:,} offsets are more than {_READ_BYTES_MAX // 1024 // 1024} MB"
    return windows, None
