"""Markers for other brokers: how they are tried again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from semel.broker.coordinators.markers import MARKERS_PER_TURN, RETRY_MS_MIN, DeliveryQueue, MarkerDelivery
from semel.coordinator.transaction.results import WriteMarkers
from semel.errors import ErrorCode
from semel.metadata.image import PartitionState
from semel.types import TopicPartition

HERE, THERE = 1, 2
PARTITIONS = [TopicPartition("orders", index) for index in range(3)]


class Delivering:
    """A delivery to partitions that another broker leads."""

    def __init__(self, partitions: Sequence[TopicPartition] = PARTITIONS) -> None:
        self.delays_ms: list[int] = []
        self.next_turns: list[Callable[[], None]] = []
        self.is_wanted = True
        self.sent: list[TopicPartition] = []
        self.is_finished = False
        led_there = PartitionState(leader=THERE, leader_epoch=0, replicas=(THERE,), isr=(THERE,))
        node = SimpleNamespace(
            config=SimpleNamespace(node_id=HERE),
            image=SimpleNamespace(partition=lambda topic, index: led_there),
            deadlines=SimpleNamespace(add=lambda operation, delay_ms: self.delays_ms.append(delay_ms)),
            turns=SimpleNamespace(soon=self.next_turns.append),
        )
        remote = SimpleNamespace(send=lambda node_id, sender, partition: self.sent.append(partition))
        effect = WriteMarkers(
            transactional_id="t",
            producer_id=7,
            producer_epoch=1,
            committed=True,
            partitions=frozenset(partitions),
            coordinator_epoch=0,
            transaction_version=2,
        )
        self.delivery = MarkerDelivery(
            cast(Any, node), effect, remote=cast(Any, remote), wanted=lambda: self.is_wanted, finished=self._finished
        )
        self.delivery.begin()

    def _finished(self) -> None:
        self.is_finished = True


def test_a_broker_that_refuses_several_partitions_is_asked_again_once_and_the_pause_doubles_once() -> None:
    delivering = Delivering()
    for round_ in range(3):
        assert delivering.sent == PARTITIONS
        delivering.sent.clear()
        for partition in PARTITIONS:
            delivering.delivery.refused(partition, ErrorCode.NETWORK_EXCEPTION)
        assert delivering.delays_ms == [RETRY_MS_MIN << number for number in range(round_ + 1)]
        delivering.delivery.expired()
    for partition in PARTITIONS:
        assert not delivering.is_finished
        delivering.delivery.acknowledged(partition)
    assert delivering.is_finished


def test_the_markers_of_a_transaction_of_many_partitions_take_several_turns_of_the_event_loop() -> None:
    """A marker takes some 50 us, and a transaction may have all partitions of the cluster."""
    partitions = [TopicPartition("orders", index) for index in range(2 * MARKERS_PER_TURN + 1)]
    delivering = Delivering(partitions)
    for turn in (1, 2, 3):
        assert delivering.sent == partitions[: turn * MARKERS_PER_TURN]
        for go_on in [delivering.next_turns.pop() for _ in delivering.next_turns[:]]:
            go_on()
    assert not delivering.next_turns
    for partition in partitions:
        assert not delivering.is_finished
        delivering.delivery.acknowledged(partition)
    assert delivering.is_finished


def test_a_coordinator_that_is_replaced_between_two_turns_writes_no_more_markers() -> None:
    delivering = Delivering([TopicPartition("orders", index) for index in range(MARKERS_PER_TURN + 1)])
    delivering.is_wanted = False
    delivering.next_turns.pop()()
    assert len(delivering.sent) == MARKERS_PER_TURN
    assert not delivering.next_turns


def test_deliveries_begin_in_their_order_and_with_a_bounded_number_of_markers_in_a_turn() -> None:
    begun: list[str] = []
    next_turns: list[Callable[[], None]] = []
    queue = DeliveryQueue(cast(Any, SimpleNamespace(soon=next_turns.append)))

    def fails() -> None:
        raise RuntimeError("a bug")

    queue.begin(lambda: begun.append("small"), markers=1)
    queue.begin(lambda: begun.append("large"), markers=MARKERS_PER_TURN)
    assert begun == ["small", "large"], "a single transaction is not delayed"
    queue.begin(fails, markers=1)
    queue.begin(lambda: begun.append("next"), markers=MARKERS_PER_TURN - 1)
    queue.begin(lambda: begun.append("last"), markers=1)
    assert begun == ["small", "large"]
    with pytest.raises(RuntimeError, match="a bug"):
        next_turns.pop()()
    next_turns.pop()()
    assert begun == ["small", "large", "next", "last"]
    next_turns.pop()()
    assert not next_turns
