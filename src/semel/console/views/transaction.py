"""The page of one transactional id: its state, the offsets that it holds up, and its past transactions.

The past is read from the end of the logs, with a limit, so that a page never reads a whole log. ``semel txn trace``
reads all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from semel.admin import TransactionDescription
from semel.console import cached_requests
from semel.console.pages import Page, Visit, link
from semel.console.texts import span
from semel.errors import ErrorCode, KafkaError
from semel.inspection.termination import terminate_transaction
from semel.inspection.times import timestamp_of
from semel.inspection.trace import BlockedReaders, Event, Trace, Written, trace

OFFSETS_MAX: Final = 5_000
_TRANSACTIONS_MAX: Final = 20
_OUTCOMES: Final = {
    "CompleteCommit": "committed",
    "PrepareCommit": "committing",
    "CompleteAbort": "aborted",
    "PrepareAbort": "aborting",
}
OUTCOME_TONES: Final = {"committed": "good", "aborted": "bad", "committing": "warn", "aborting": "warn", "open": "warn"}


@dataclass(slots=True)
class OneTransaction:
    """One transaction: its states from the first with partitions to the last, and the records that it wrote."""

    epoch: int
    producer_id: int
    events: list[Event]
    written: list[Written] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        return _OUTCOMES.get(self.events[-1].state, "open")

    @property
    def is_whole(self) -> bool:
        return self.events[-1].state.startswith("Complete")

    @property
    def begun_ms(self) -> int:
        return _ms(self.events[0])

    @property
    def ended_ms(self) -> int | None:
        return _ms(self.events[-1]) if self.is_whole else None

    @property
    def partitions(self) -> list[str]:
        return [partition for event in self.events for partition in event.partitions]

    def steps(self) -> list[tuple[Event, int]]:
        """Return each state with the time from the first state to it, in milliseconds."""
        return [(event, _ms(event) - self.begun_ms) for event in self.events]


def transaction(visit: Visit) -> Page:
    connection = visit.connection
    name = visit.name("id")
    found = connection.answers.get(
        ("transaction", name), cached_requests.FRESH_S, lambda: connection.admin.transactions.describe(name)
    )
    history, trouble = history_of(visit, found)
    transactions = transactions_of(history) if history is not None else []
    is_open = cached_requests.is_open(found.state)
    newest = transactions[:_TRANSACTIONS_MAX]
    blocked = _blocked_readers(visit, found, history) if is_open else []
    begin_ms = min((one.begun_ms for one in newest), default=visit.now_ms)
    values = {
        "found": found,
        "is_open": is_open,
        "age_ms": None if found.start_time_ms is None or not is_open else max(visit.now_ms - found.start_time_ms, 0),
        "now_ms": visit.now_ms,
        "history": history,
        "trouble": trouble,
        "transactions": newest,
        "transaction_count": len(transactions),
        "begin_ms": begin_ms,
        "end_ms": max((one.ended_ms or visit.now_ms for one in newest), default=visit.now_ms),
        "blocks": [
            (
                one.begun_ms,
                one.ended_ms or visit.now_ms,
                OUTCOME_TONES[one.outcome],
                f"epoch {one.epoch}: {one.outcome}, {span((one.ended_ms or visit.now_ms) - one.begun_ms)}",
            )
            for one in newest
        ],
        "tones": OUTCOME_TONES,
        "blocked": blocked,
        "readers": _readers(visit, blocked),
        "offsets_max": OFFSETS_MAX,
        "said": None,
    }
    return Page("transaction.html", name, "transactions", values)


def terminate(visit: Visit) -> Page:
    """Abort the open transaction, if the visitor has typed the transactional id to confirm it."""
    name = visit.name("id")
    if visit.form.get("typed", "") != name:
        page = transaction(visit)
        said = "Nothing was changed: the name that was typed is another one."
        return Page(page.template, page.title, page.place, {**page.values, "said": said}, None, 409)
    found = visit.connection.admin.transactions.describe(name)
    terminate_transaction(visit.connection.settings, name, timeout_ms=found.timeout_ms)
    visit.connection.answers.clear()
    return Page("transaction.html", name, "transactions", go_to=link("transaction", id=name))


def transactions_of(history: Trace) -> list[OneTransaction]:
    """Return the transactions of the transactional id, the newest first, each with the records that it wrote."""
    transactions: list[OneTransaction] = []
    current: OneTransaction | None = None
    for event in history.events:
        if event.state == "Empty" or event.state == "Dead":
            current = None
            continue
        if current is None or current.is_whole:
            current = OneTransaction(event.epoch, event.producer_id, [])
            transactions.append(current)
        current.events.append(event)
    # Matched from the newest: the oldest ones may lack states or records, because of compaction or the limit. Without
    # transactions V2 the transactions of one producer have the same epoch; then the order decides.
    by_partition: dict[str, list[Written]] = {}
    for written in history.written:
        by_partition.setdefault(written.partition, []).append(written)
    for one in reversed(transactions):
        for partition in one.partitions:
            left = by_partition.get(partition, [])
            if left and left[-1].epoch == one.epoch and left[-1].producer_id == one.producer_id:
                one.written.append(left.pop())
    return transactions[::-1]


def history_of(visit: Visit, found: TransactionDescription) -> tuple[Trace | None, str | None]:
    """Return the history of the transactional id, or the reason why it is not known.

    It is read again only when the state of the id has changed: nothing else changes it.
    """
    name = found.transactional_id
    # The high watermarks are part of the question, because an open transaction writes more records.
    ends = cached_requests.ends(visit.connection, found.partitions) if found.partitions else {}
    moved = (
        found.state,
        found.producer_epoch,
        found.start_time_ms,
        tuple(sorted(ends.items(), key=lambda one: one[0])),
    )
    try:
        kept = visit.connection.answers.get(
            ("trace", name, moved), 30.0, lambda: trace(visit.connection.admin, name, offsets_max=OFFSETS_MAX)
        )
    except KafkaError as error:
        if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return None, f"none of the last {OFFSETS_MAX} records of its coordinator is about it"
        return None, str(error)
    return kept, None


def _blocked_readers(visit: Visit, found: TransactionDescription, history: Trace | None) -> list[BlockedReaders]:
    """Return the offsets that the transaction holds up: from its history, or else from the partitions' offsets."""
    if history is not None and history.state == found.state:
        return history.holds_up
    ends = cached_requests.ends(visit.connection, found.partitions)
    return [
        BlockedReaders(f"{one.topic}:{one.partition}", ends[one].stable, ends[one].end)
        for one in found.partitions
        if one in ends and ends[one].unstable_count
    ]


def _readers(visit: Visit, blocked: Sequence[BlockedReaders]) -> dict[str, list[str]]:
    """Return the groups that have an offset in each partition; none if there are too many groups to ask for all."""
    committed = cached_requests.committed(visit.connection) if blocked else None
    found: dict[str, list[str]] = {one.partition: [] for one in blocked}
    for group, offsets in sorted((committed or {}).items()):
        for one in offsets:
            if f"{one.topic}:{one.partition}" in found:
                found[f"{one.topic}:{one.partition}"].append(group)
    return found


def _ms(event: Event) -> int:
    return 0 if event.time is None or not event.time.endswith("Z") else timestamp_of(event.time)
