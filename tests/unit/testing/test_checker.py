"""Each anomaly in the smallest history that has it, and the histories beside it that have none."""

from __future__ import annotations

import pytest

from semel.errors import AbortableError, ErrorCode, ProducerFenced, TimedOut
from semel.testing.checker import CheckedOperation, Outcome, Polled, Sent, check, outcome_of
from semel.testing.cycles import cycles
from semel.types import TopicPartition

ORDERS = TopicPartition("orders", 0)
LEDGER = TopicPartition("ledger", 0)
OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO


def sends(process: str, *sent: Sent, outcome: Outcome = OK, at_ms: float = 0.0) -> CheckedOperation:
    return CheckedOperation(process, outcome, sent, at_ms, at_ms + 1)


def polls(process: str, *polled: Polled, at_ms: float = 100.0, repositioned: bool = False) -> CheckedOperation:
    partitions = {one.partition for one in polled} if repositioned else set()
    return CheckedOperation(process, OK, polled, at_ms, at_ms + 1, frozenset(partitions))


def rules(*history: CheckedOperation) -> list[str]:
    return [anomaly.rule for anomaly in check(history)]


A, B, C = b"a", b"b", b"c"
SENT = (
    sends("writer", Sent(ORDERS, A, 0), at_ms=0),
    sends("writer", Sent(ORDERS, B, 1), at_ms=10),
    sends("writer", Sent(ORDERS, C, 4), at_ms=20),
)
ALL_READ = (Polled(ORDERS, A, 0), Polled(ORDERS, B, 1), Polled(ORDERS, C, 4))


def test_what_is_sent_once_and_read_in_order_has_no_anomaly_and_gaps_between_offsets_are_none() -> None:
    assert check([*SENT, polls("reader", *ALL_READ)]) == []


def test_an_anomaly_carries_its_values() -> None:
    (anomaly,) = check([polls("reader", Polled(ORDERS, A, 7))])
    assert str(anomaly) == "A0 invented-read in orders-0: ['reader'] read b'a', which was never sent"


def test_a1_an_offset_with_two_values() -> None:
    history = [
        sends("writer", Sent(ORDERS, A, 0)),
        sends("other", Sent(ORDERS, B, 1)),
        polls("one", Polled(ORDERS, A, 0), Polled(ORDERS, B, 1)),
        polls("two", Polled(ORDERS, B, 0)),
    ]
    assert "A1" in rules(*history)
    assert "A1" in rules(*SENT, sends("liar", Sent(ORDERS, b"x", 0)), polls("reader", *ALL_READ)), "as told by a sender"


def test_a2_a_read_of_what_was_aborted() -> None:
    aborted = sends("aborter", Sent(ORDERS, b"x", 2), outcome=FAIL)
    assert rules(aborted, polls("reader", Polled(ORDERS, b"x", 2))) == ["A2"]
    assert rules(*SENT, aborted, polls("reader", *ALL_READ)) == []


def test_a3_a_write_that_readers_passed_by() -> None:
    assert "A3" in rules(*SENT, polls("reader", Polled(ORDERS, A, 0), Polled(ORDERS, C, 4)))


def test_a3_half_of_a_transaction_of_unknown_outcome() -> None:
    torn = sends("bank", Sent(ORDERS, A, 0), Sent(LEDGER, B, 0), outcome=INFO)
    later = sends("bank", Sent(LEDGER, C, 2), at_ms=10)
    assert rules(torn, later, polls("reader", Polled(ORDERS, A, 0), Polled(LEDGER, C, 2))) == ["A3"]
    assert rules(torn, polls("reader", Polled(ORDERS, A, 0), Polled(LEDGER, B, 0))) == []
    assert rules(torn) == [], "it may just as well never have happened"


def test_a4_a_value_at_two_offsets() -> None:
    assert rules(*SENT, polls("reader", *ALL_READ, Polled(ORDERS, C, 5))) == ["A4"]
    assert "A4" in rules(*SENT, polls("reader", Polled(ORDERS, A, 0), Polled(ORDERS, B, 1), Polled(ORDERS, C, 5))), (
        "read elsewhere than where it was acknowledged"
    )


def test_a5_a_write_that_nobody_has_read() -> None:
    assert rules(*SENT, polls("reader", *ALL_READ[:2])) == ["A5"]
    assert rules(sends("writer", Sent(ORDERS, A))) == ["A5"], "also one whose offset was not told"


def test_a6_a_transaction_that_reads_what_it_sent() -> None:
    assert rules(CheckedOperation("copier", OK, (Sent(ORDERS, A, 0), Polled(ORDERS, A, 0)), 0, 1)) == ["A6"]


def test_a7_a_poll_that_leaves_something_out() -> None:
    others = polls("other", *ALL_READ)
    skipping = (Polled(ORDERS, A, 0), Polled(ORDERS, C, 4))
    assert rules(*SENT, others, polls("reader", *skipping)) == ["A7"]
    assert rules(*SENT, others, polls("reader", *skipping, repositioned=True)) == []


def test_a8_a_poll_that_goes_back() -> None:
    assert rules(*SENT, polls("other", *ALL_READ), polls("reader", ALL_READ[1], ALL_READ[0])) == ["A8"]
    assert rules(*SENT, polls("other", *ALL_READ), polls("reader", ALL_READ[1], ALL_READ[1])) == ["A8"], "or stands"


def test_a9_and_a10_the_same_from_one_poll_to_the_next() -> None:
    others = polls("other", *ALL_READ)
    first, second, third = (polls("reader", polled, at_ms=200.0 + 10 * n) for n, polled in enumerate(ALL_READ))
    assert rules(*SENT, others, first, second, third) == []
    assert rules(*SENT, others, first, third) == ["A9"]
    back = polls("reader", ALL_READ[0], at_ms=250)
    assert rules(*SENT, others, second, back) == ["A10"]
    assert rules(*SENT, others, second, polls("reader", ALL_READ[0], at_ms=250, repositioned=True)) == []


def test_where_a_reader_goes_on_after_it_gave_up_is_its_own_affair() -> None:
    failed = CheckedOperation("reader", FAIL, ALL_READ[1:2], 200, 201)
    again = polls("reader", *ALL_READ[1:], at_ms=210)
    first = polls("reader", ALL_READ[0], at_ms=190)
    assert rules(*SENT, first, failed, again) == []
    elsewhere = polls("reader", ALL_READ[2], at_ms=210)
    assert rules(*SENT, polls("other", *ALL_READ), first, failed, elsewhere) == []


def test_a11_sends_that_land_in_another_order() -> None:
    early, late = Sent(ORDERS, A, 1), Sent(ORDERS, B, 0)
    read = polls("reader", Polled(ORDERS, B, 0), Polled(ORDERS, A, 1))
    assert rules(sends("writer", early, late), read) == ["A11"], "within one operation"
    assert rules(sends("writer", early), sends("writer", late, at_ms=10), read) == ["A11"]
    assert rules(sends("writer", early), sends("other", late, at_ms=10), read) == [], "processes are not ordered"
    untold = sends("writer", Sent(ORDERS, A)), sends("writer", Sent(ORDERS, B), at_ms=10)
    assert rules(*untold, read) == ["A11"], "as readers found them"


def test_a12_and_a13_writes_of_two_transactions_between_each_other_are_allowed() -> None:
    one = CheckedOperation("one", OK, (Sent(ORDERS, A, 0), Sent(ORDERS, C, 2), Sent(LEDGER, A, 1)), 0, 50)
    two = CheckedOperation("two", OK, (Sent(ORDERS, B, 1), Sent(LEDGER, B, 0)), 0, 50)
    reads = [
        polls("reader", *(Polled(ORDERS, value, n) for n, value in enumerate((A, B, C)))),
        polls("reader", Polled(LEDGER, B, 0), Polled(LEDGER, A, 1), at_ms=110),
    ]
    assert rules(one, two, *reads) == []


def test_a14_two_transactions_that_read_from_each_other() -> None:
    one = CheckedOperation("one", OK, (Sent(ORDERS, A, 0), Polled(LEDGER, B, 0)), 0, 50)
    two = CheckedOperation("two", OK, (Sent(LEDGER, B, 0), Polled(ORDERS, A, 0)), 0, 50)
    assert rules(one, two) == ["A14"]


def test_a14_a_read_of_what_was_begun_after_the_reader_had_ended() -> None:
    assert rules(polls("reader", Polled(ORDERS, A, 0), at_ms=0), sends("writer", Sent(ORDERS, A, 0), at_ms=2)) == [
        "A14"
    ]
    assert rules(polls("reader", Polled(ORDERS, A, 0), at_ms=0), sends("writer", Sent(ORDERS, A, 0), at_ms=1)) == [], (
        "at the same instant"
    )


def test_a14_nothing_comes_after_an_operation_of_unknown_outcome() -> None:
    unknown = CheckedOperation("reader", INFO, (Polled(ORDERS, A, 0), Sent(LEDGER, B)), 0, 1)
    history = [unknown, sends("writer", Sent(ORDERS, A, 0), at_ms=2), polls("last", Polled(ORDERS, A, 0))]
    assert rules(*history) == []


def test_values_must_be_unique() -> None:
    with pytest.raises(ValueError, match="twice; values must be unique"):
        check([sends("one", Sent(ORDERS, A)), sends("two", Sent(ORDERS, A))])


ABORTABLE = AbortableError(ErrorCode.TRANSACTION_ABORTABLE, "a record was not written")
FENCED = ProducerFenced(ErrorCode.PRODUCER_FENCED, "there is a newer epoch")
TIMED_OUT = TimedOut(ErrorCode.REQUEST_TIMED_OUT, "no answer")


@pytest.mark.parametrize(
    ("commit_attempted", "commit_error", "aborted", "outcome"),
    [
        (True, None, False, OK),
        (False, None, True, FAIL),
        (False, FENCED, False, FAIL),
        (True, ABORTABLE, True, FAIL),
        (True, ABORTABLE, False, INFO),
        (True, FENCED, False, INFO),
        (True, TIMED_OUT, False, INFO),
    ],
)
def test_how_a_transaction_ended(
    commit_attempted: bool, commit_error: BaseException | None, aborted: bool, outcome: Outcome
) -> None:
    assert outcome_of(commit_attempted=commit_attempted, commit_error=commit_error, aborted=aborted) is outcome


def test_cycles_are_found_beside_and_within_each_other() -> None:
    edges = {0: [1], 1: [2], 2: [0, 3], 3: [4], 4: [3, 5], 5: []}
    assert sorted(map(sorted, cycles(edges))) == [[0, 1, 2], [3, 4]]
    assert cycles({number: [number + 1] for number in range(10_000)} | {10_000: []}) == []
