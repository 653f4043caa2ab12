"""Markers for other brokers: how they are tried again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from semel.broker.coordinators.markers import RETRY_MS_MIN, MarkerDelivery
from semel.coordinator.transaction.results import WriteMarkers
from semel.errors import ErrorCode
from semel.metadata.image import PartitionState
from semel.types import TopicPartition

HERE, THERE = 1, 2
PARTITIONS = [TopicPartition("orders", index) for index in range(3)]


class Delivering:
    """A delivery to partitions that another broker leads."""

    def __init__(self) -> None:
        self.delays_ms: list[int] = []
        self.sent: list[TopicPartition] = []
        self.is_finished = False
        led_there = PartitionState(leader=THERE, leader_epoch=0, replicas=(THERE,), isr=(THERE,))
        node = SimpleNamespace(
            config=SimpleNamespace(node_id=HERE),
            image=SimpleNamespace(partition=lambda topic, index: led_there),
            deadlines=SimpleNamespace(add=lambda operation, delay_ms: self.delays_ms.append(delay_ms)),
        )
        remote = SimpleNamespace(send=lambda node_id, sender, partition: self.sent.append(partition))
        effect = WriteMarkers(
            transactional_id="t",
            producer_id=7,
            producer_epoch=1,
            committed=True,
            partitions=frozenset(PARTITIONS),
            coordinator_epoch=0,
            transaction_version=2,
        )
        self.delivery = MarkerDelivery(
            cast(Any, node), effect, remote=cast(Any, remote), wanted=lambda: True, finished=self._finished
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
