"""The checker itself: every anomaly it has a name for is planted once, and nothing else is reported."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tools.history import Found, History, Sent, anomalies, kinds

A0, A1, A2 = (Sent(0, 0, sequence) for sequence in range(3))
B0 = Sent(0, 1, 0)
ELSEWHERE = Sent(1, 0, 0)

HISTORY = History(sent={A0, A1, A2, B0, ELSEWHERE}, acknowledged={A0: 0, A1: 2, A2: 3, B0: 1, ELSEWHERE: 0})
LOG = [Found(0, 0, A0), Found(0, 1, B0), Found(0, 2, A1), Found(0, 3, A2), Found(1, 0, ELSEWHERE)]


def test_a_log_that_keeps_every_promise_has_no_anomalies() -> None:
    assert anomalies(HISTORY, LOG) == []


def test_the_order_in_which_partitions_were_read_does_not_matter() -> None:
    assert anomalies(HISTORY, reversed(LOG)) == []


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (LOG[:-1], {"lost-write": 1}),
        ([*LOG, Found(0, 4, A2)], {"duplicate": 1}),
        ([*LOG, Found(0, 4, A0)], {"duplicate": 1, "nonmonotonic": 1}),
        ([*LOG[:-2], Found(0, 7, A2), LOG[-1]], {"inconsistent-offset": 1}),
        ([*LOG, Found(0, 4, Sent(0, 7, 0))], {"unsent": 1}),
        ([LOG[0], LOG[1], Found(0, 2, A2), Found(0, 3, A1), LOG[4]], {"inconsistent-offset": 2, "nonmonotonic": 1}),
    ],
    ids=["lost", "twice in a row", "an old one again", "elsewhere", "never sent", "swapped"],
)
def test_every_broken_promise_is_named(log: list[Found], expected: dict[str, int]) -> None:
    assert kinds(anomalies(HISTORY, log)) == expected


def test_a_record_that_was_refused_may_be_there_or_not() -> None:
    history = replace(HISTORY, sent=HISTORY.sent | {Sent(0, 0, 3)}, refused={Sent(0, 0, 3): "timed out"})
    assert anomalies(history, LOG) == []
    assert anomalies(history, [*LOG, Found(0, 4, Sent(0, 0, 3))]) == []


def test_a_record_that_nobody_ever_answered_is_reported() -> None:
    history = replace(HISTORY, sent=HISTORY.sent | {Sent(0, 0, 3)})
    assert kinds(anomalies(history, LOG)) == {"unresolved": 1}


def test_a_record_carries_its_identity_through_the_broker() -> None:
    sent = Sent(3, 1, 123_456)
    assert Sent.from_value(sent.to_value(size_bytes=40)) == sent
    assert len(sent.to_value(size_bytes=40)) == 40
