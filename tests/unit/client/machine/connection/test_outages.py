"""Outages in the log: two lines each, however many clients see them and in whatever order."""

from __future__ import annotations

import pytest

from semel.client.machine.connection.outages import Outages

BROKER = "b:9092"


def test_clients_that_share_them_tell_of_an_outage_once_and_of_its_end_once(caplog: pytest.LogCaptureFixture) -> None:
    shared = Outages("; waiting")
    for outage in range(2):
        for _ in range(3):
            shared.lost(BROKER, "b:9092: refused", 1_000, made_after=outage)
        for _ in range(3):
            shared.answered(BROKER, 73_500)
    loss, end = "lost the connection to broker b:9092: refused; waiting", "broker b:9092 answers again after 72.5 s"
    assert caplog.messages == [loss, end, loss, end]
    assert {record.levelname for record in caplog.records} == {"WARNING"}


def test_a_loss_that_is_noticed_after_the_broker_is_back_belongs_to_the_outage_that_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As one whose request is given up long after the network is there again."""
    shared = Outages()
    early = shared.ended(BROKER)
    shared.lost(BROKER, "b:9092: gone", 0, made_after=early)
    shared.answered(BROKER, 40_000)
    shared.lost(BROKER, "b:9092: Metadata was not answered", 45_000, made_after=early)
    assert len(caplog.messages) == 2
    shared.lost(BROKER, "b:9092: gone again", 50_000, made_after=shared.ended(BROKER))
    assert len(caplog.messages) == 3


def test_each_broker_has_outages_of_its_own_and_one_that_was_never_away_is_not_said_to_be_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outages = Outages()
    outages.answered(BROKER, 0)
    outages.lost(BROKER, "b:9092: gone", 0, made_after=0)
    outages.lost("c:9092", "c:9092: gone", 0, made_after=0)
    outages.answered("c:9092", 1_000)
    assert [message.rpartition(" ")[0] for message in caplog.messages[2:]] == ["broker c:9092 answers again after 1.0"]
