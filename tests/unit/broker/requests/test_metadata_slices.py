"""A large Metadata answer is made in slices, whichever brokers lead its partitions and however topics are named."""

from __future__ import annotations

from collections.abc import Coroutine
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest

from semel.broker.network.answer_cache import AnswerCache
from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.metadata import SLICE_PARTITIONS, metadata
from semel.broker.turns import Turns
from semel.metadata.image import Broker, BrokerRegistered, ClusterImage, PartitionState, Topic, TopicCreated
from semel.testing.virtual.clock import ManualClock
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

WIDE, NARROW = UUID(int=1), UUID(int=2)
OF_ANOTHER_BROKER = PartitionState(leader=2, leader_epoch=0, replicas=(2,), isr=(2,), partition_epoch=0)


@pytest.fixture
def node() -> Node:
    image = ClusterImage("cluster").apply(
        [
            *(BrokerRegistered(Broker(node_id, "h", 1)) for node_id in (1, 2)),
            TopicCreated(Topic("wide", WIDE, (OF_ANOTHER_BROKER,) * (SLICE_PARTITIONS + 1))),
            TopicCreated(Topic("narrow", NARROW, (OF_ANOTHER_BROKER,))),
        ]
    )
    node = SimpleNamespace(
        image=image,
        partitions=(),
        controller_id=1,
        config=SimpleNamespace(auto_create_topics_enable=False),
        answers=AnswerCache(),
        turns=Turns(ManualClock()),
        rights=lambda request: None,
    )
    return cast(Node, node)


def ask(node: Node, topics: list[MetadataRequestTopic] | None) -> MetadataResponse | Coroutine[object, object, object]:
    request = SimpleNamespace(version=12, listener="PLAINTEXT", cacheable=lambda cache: None)
    return metadata(node, cast(Request, request), MetadataRequest(topics=topics))


@pytest.mark.parametrize(
    "topics", [None, [MetadataRequestTopic(name="wide")], [MetadataRequestTopic(name=None, topic_id=WIDE)]]
)
def test_many_partitions_are_told_in_slices(node: Node, topics: list[MetadataRequestTopic] | None) -> None:
    answer = ask(node, topics)

    assert isinstance(answer, Coroutine)
    answer.close()


@pytest.mark.parametrize("topic", [MetadataRequestTopic(name="narrow"), MetadataRequestTopic(topic_id=NARROW)])
def test_few_are_told_at_once(node: Node, topic: MetadataRequestTopic) -> None:
    answer = ask(node, [topic])

    assert isinstance(answer, MetadataResponse)
    assert [(told.name, len(told.partitions)) for told in answer.topics] == [("narrow", 1)]
