from __future__ import annotations

from semel.console.views.transaction import transactions_of
from semel.inspection.trace import Event, Trace, Written


def event(second: int, state: str, epoch: int, *partitions: str) -> Event:
    return Event(f"2026-01-31T12:00:{second:02}.000Z", second, state, 7, epoch, list(partitions))


def written(epoch: int, first: int, marker: str = "commit") -> Written:
    return Written("orders:0", 7, epoch, first, first, marker, first + 1)


def history(events: list[Event], *parts: Written) -> Trace:
    return Trace("shop", events[-1].state, None, events, list(parts), [])


def test_each_transaction_has_what_it_wrote_the_newest_first() -> None:
    events = [
        event(0, "Empty", 0),
        event(1, "Ongoing", 0, "orders:0"),
        event(2, "PrepareCommit", 1),
        event(3, "CompleteCommit", 1),
        event(4, "Ongoing", 1, "orders:0"),
    ]
    newest, oldest = transactions_of(history(events, written(0, 0), written(1, 2, "open")))
    assert (newest.outcome, newest.ended_ms, [one.first_offset for one in newest.written]) == ("open", None, [2])
    assert (oldest.outcome, [one.first_offset for one in oldest.written]) == ("committed", [0])
    assert [after for _, after in oldest.steps()] == [0, 1_000, 2_000]
    assert oldest.ended_ms == oldest.begun_ms + 2_000


def test_what_one_transaction_wrote_is_not_given_to_another_whose_records_are_gone() -> None:
    events = [
        event(1, "Ongoing", 4, "orders:0"),
        event(2, "CompleteCommit", 5),
        event(3, "Ongoing", 5, "orders:0"),
        event(4, "CompleteAbort", 6),
    ]
    newest, oldest = transactions_of(history(events, written(4, 0)))
    assert (newest.outcome, newest.written) == ("aborted", [])
    assert [one.first_offset for one in oldest.written] == [0]


def test_transactions_of_v1_share_an_epoch_and_are_told_apart_by_their_order() -> None:
    events = [
        event(1, "Ongoing", 3, "orders:0"),
        event(2, "CompleteCommit", 3),
        event(3, "Ongoing", 3, "orders:0"),
        event(4, "CompleteCommit", 3),
    ]
    newest, oldest = transactions_of(history(events, written(3, 10), written(3, 12)))
    assert ([one.first_offset for one in newest.written], [one.first_offset for one in oldest.written]) == ([12], [10])
