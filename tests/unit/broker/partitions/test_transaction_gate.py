"""The gate of a partition: open for one producer's transaction, from the coordinator's word to the marker."""

from __future__ import annotations

from semel.broker.partitions.transaction_gate import TransactionGate
from semel.types import ProducerIdentity

PRODUCER = ProducerIdentity(7, 3)


def admitted(gate: TransactionGate, transactional_id: str = "t", producer: ProducerIdentity = PRODUCER) -> bool:
    return gate.answered(gate.ask(producer.producer_id), transactional_id, producer, admitted=True)


def test_nobody_is_let_in_without_the_coordinators_word() -> None:
    gate = TransactionGate()
    assert not gate.is_open("t", PRODUCER)
    assert not gate.answered(gate.ask(7), "t", PRODUCER, admitted=False)
    assert not gate.is_open("t", PRODUCER)


def test_the_word_is_good_for_this_id_this_producer_and_this_epoch() -> None:
    gate = TransactionGate()
    assert admitted(gate)
    assert gate.is_open("t", PRODUCER)
    assert not gate.is_open("another", PRODUCER)
    assert not gate.is_open("t", ProducerIdentity(7, 4))
    assert not gate.is_open("t", ProducerIdentity(8, 3))


def test_a_marker_closes_the_gate_for_its_producer_and_no_other() -> None:
    gate = TransactionGate()
    admitted(gate)
    admitted(gate, "other", ProducerIdentity(8, 0))
    gate.close(7)
    assert not gate.is_open("t", PRODUCER)
    assert gate.is_open("other", ProducerIdentity(8, 0))


def test_scenario_42_a_word_that_a_marker_has_overtaken_lets_nobody_in() -> None:
    gate = TransactionGate()
    asking = gate.ask(7)
    gate.close(7)
    assert not gate.answered(asking, "t", PRODUCER, admitted=True)
    assert not gate.is_open("t", PRODUCER)
    assert admitted(gate), "the next question is a new one"


def test_two_questions_at_a_time_are_both_answered() -> None:
    gate = TransactionGate()
    first, second = gate.ask(7), gate.ask(7)
    assert gate.answered(first, "t", PRODUCER, admitted=True)
    gate.close(7)
    assert not gate.answered(second, "t", PRODUCER, admitted=True), "the marker came after it was asked"


def test_nothing_is_remembered_of_those_who_were_not_let_in() -> None:
    gate = TransactionGate()
    for producer_id in range(100):
        gate.answered(gate.ask(producer_id), "t", ProducerIdentity(producer_id, 0), admitted=False)
    assert (gate._asking, gate._admitted) == ({}, {})
