"""Logs follow the image: a few in each turn of the loop, and a name is free only when its former logs are gone."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from semel.broker.network.answer_cache import AnswerCache
from semel.broker.node import Node
from semel.broker.partitions.partition_lifecycle import LOGS_PER_TURN, PartitionLifecycle
from semel.broker.turns import Turns
from semel.metadata.controller import Decision
from semel.metadata.image import ClusterImage, PartitionState, Topic, TopicCreated, TopicDeleted
from semel.testing.virtual.clock import ManualClock
from semel.types import TopicPartition

MANY = 3 * LOGS_PER_TURN + 7


def topic(name: str, partitions: int, number: int = 1) -> Topic:
    state = PartitionState(replicas=(1,), isr=(1,), leader=1, leader_epoch=0)
    return Topic(name=name, id=UUID(int=number), partitions=(state,) * partitions)


class Bench:
    """A node of which only what PartitionLifecycle needs is there; what is done to logs is written down."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.served: set[TopicPartition] = set()
        self.next_turn: list[Callable[[], None]] = []
        self.clock = ManualClock()
        self.node = SimpleNamespace(
            answers=AnswerCache(),
            clock=self.clock,
            turns=Turns(self.clock),
            partitions=SimpleNamespace(remove=self.served.discard, get=lambda name, index: None),
            logs=SimpleNamespace(
                get=lambda partition: None,
                delete=lambda partition: self.done.append(partition.partition),
                names_settled=lambda: self.done.append("settled"),
            ),
            cleaner=None,
            deleting=Counter(),
            image=SimpleNamespace(topics_by_id={}),
        )
        loop = SimpleNamespace(call_soon=self.next_turn.append)
        self.hosting = PartitionLifecycle(cast(Node, self.node), cast(asyncio.AbstractEventLoop, loop))

    def turn(self) -> int:
        before = len(self.done)
        works, self.next_turn[:] = list(self.next_turn), []
        for work in works:
            work()
        return len(self.done) - before

    def delete(self, topic: Topic) -> None:
        image = cast(ClusterImage, self.node.image)
        self.hosting.changed(image, image, [TopicDeleted(topic)])


def test_the_logs_of_a_topic_that_was_deleted_go_a_few_in_each_turn() -> None:
    bench = Bench()
    bench.served = {TopicPartition("wide", index) for index in range(MANY)}
    bench.node.partitions.remove = bench.served.discard
    bench.delete(topic("wide", MANY))
    assert not bench.served, "from now on none of them is served"
    in_a_turn = [len(bench.done)]
    while bench.next_turn:
        assert bench.node.deleting == {"wide": 1}
        in_a_turn.append(bench.turn())
    assert max(in_a_turn) == LOGS_PER_TURN == bench.node.turns.most_elements
    assert bench.done == [*range(MANY), "settled"]
    assert not bench.node.deleting


def test_a_slow_disk_ends_the_turn_sooner() -> None:
    bench = Bench()

    def delete(partition: TopicPartition) -> None:
        bench.done.append(partition)
        bench.clock.advance(2)

    bench.node.logs.delete = delete
    bench.delete(topic("wide", 10))
    assert len(bench.done) == 3


def test_two_topics_go_one_after_the_other() -> None:
    bench = Bench()
    bench.delete(topic("wide", MANY))
    bench.delete(topic("other", 2, number=2))
    assert bench.node.deleting == {"wide": 1, "other": 1}
    while bench.next_turn:
        bench.turn()
    assert bench.done == [*range(MANY), "settled", 0, 1, "settled"]
    assert not bench.node.deleting


@pytest.mark.parametrize("name", ["again", "other"])
def test_a_topic_is_made_when_the_logs_of_a_former_one_of_its_name_are_gone(name: str) -> None:
    """Until then the metadata does not know it: after a crash the old folders would have the new topic's name."""
    node: Any = SimpleNamespace(deleting=Counter({"again": 1}))
    committed: list[bool] = []

    async def settled() -> None:
        node.deleting.clear()

    async def change(decide: Callable[[Any], Decision[str]]) -> Decision[str]:
        decision = decide(None)
        committed.append("again" in node.deleting)
        return decision

    node.settled, node.cluster = settled, SimpleNamespace(change=change)
    node._decide = lambda decide, image: Node._decide(node, decide, image)
    decision = Decision((TopicCreated(topic(name, 1)),), ("made",))
    results = asyncio.run(Node.change(node, lambda image: decision, unstored=lambda refusal: []))
    assert results == ("made",)
    assert committed == [name == "other"], "another name need not wait"
