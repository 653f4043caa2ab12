"""The cluster's image: changes make a new one and leave the old as it was."""

from __future__ import annotations

import random
from functools import partial
from uuid import UUID

import pytest

from semel.metadata.image import (
    Broker,
    BrokerConfigsAltered,
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ClientMetricsAltered,
    ClusterImage,
    GroupConfigsAltered,
    PartitionState,
    Topic,
    TopicAltered,
    TopicCreated,
    TopicDeleted,
    changes_between,
)
from tests.executed_lines import lines_executed

EMPTY = ClusterImage("cluster")
STATE = PartitionState(leader=1, leader_epoch=0, replicas=(1,), isr=(1,))


def topic(name: str, number: int, partitions: int = 1) -> Topic:
    return Topic(name, UUID(int=number), (STATE,) * partitions)


def test_a_created_topic_is_found_by_name_and_by_id() -> None:
    orders = topic("orders", 7, partitions=2)
    image = EMPTY.apply([TopicCreated(orders)])
    assert image.topics == {"orders": orders}
    assert image.topics_by_id == {UUID(int=7): orders}
    assert (image.partition_count, image.version) == (2, 1)
    assert image.partition("orders", 1) == STATE
    assert image.partition("orders", 2) is image.partition("orders", -1) is image.partition("other", 0) is None


def test_an_image_is_not_changed_by_the_ones_made_from_it() -> None:
    orders = topic("orders", 7)
    before = EMPTY.apply([TopicCreated(orders), BrokerRegistered(Broker(1, "h", 9092))])
    grown = topic("orders", 7, partitions=3)
    after = before.apply(
        [TopicAltered(grown), BrokerUnregistered(1), BrokerConfigsAltered(None, {"a": "b"}), TopicDeleted(grown)]
    )
    assert (before.topics, list(before.brokers), before.broker_configs) == ({"orders": orders}, [1], {})
    assert (after.topics, after.topics_by_id, after.brokers, after.partition_count) == ({}, {}, {}, 0)
    assert after.broker_configs == {None: {"a": "b"}}


def test_what_a_change_does_not_touch_is_shared() -> None:
    before = EMPTY.apply([TopicCreated(topic("orders", 7))])
    after = before.apply([BrokerRegistered(Broker(1, "h", 9092))])
    assert after.topics is before.topics
    assert after.version == before.version + 1


def test_names_that_a_metric_could_not_tell_apart_collide() -> None:
    image = EMPTY.apply([TopicCreated(topic("a.b_c", 1)), TopicCreated(topic("plain", 2))])
    assert image.colliding_topic("a_b.c") == "a.b_c"
    assert image.colliding_topic("a.b_c") is None
    assert image.colliding_topic("plain") is None
    assert image.apply([TopicDeleted(topic("a.b_c", 1))]).colliding_topic("a_b.c") is None
    # Several commits of others come at once, and in the order of the paths.
    replaced = image.apply([TopicCreated(topic("a.b.c", 3)), TopicDeleted(topic("a.b_c", 1))])
    assert replaced.colliding_topic("a_b.c") == "a.b.c"


def test_internal_topics_are_told_by_their_names() -> None:
    assert topic("__consumer_offsets", 1).is_internal
    assert not topic("consumer_offsets", 1).is_internal


@pytest.mark.parametrize("seed", range(20))
def test_the_changes_between_two_images_lead_from_one_to_the_other(seed: int) -> None:
    chance = random.Random(seed)

    def some_image() -> ClusterImage:
        names = chance.sample(["a", "b", "c.d", "e"], chance.randint(0, 4))
        changes: list[Change] = [
            TopicCreated(topic(name, 10 * ord(name[0]) + chance.randint(0, 1), chance.randint(1, 2))) for name in names
        ]
        changes += [BrokerRegistered(Broker(n, "h", chance.randint(1, 2))) for n in range(chance.randint(0, 3))]
        changes += [
            BrokerConfigsAltered(n, {"x": str(chance.randint(0, 1))}) for n in (None, 1) if chance.random() < 0.5
        ]
        for name in ("g", "h"):
            configs = {"x": str(chance.randint(0, 1))} if chance.random() < 0.5 else {}
            changes += [GroupConfigsAltered(name, configs), ClientMetricsAltered(name, configs)]
        return EMPTY.apply(changes)

    before, after = some_image(), some_image()
    reached = before.apply(changes_between(before, after))
    assert changes_between(reached, after) == []
    assert (reached.topics, reached.topics_by_id, reached.brokers) == (after.topics, after.topics_by_id, after.brokers)
    assert (reached.group_configs, reached.client_metrics) == (after.group_configs, after.client_metrics)
    assert reached.names_by_metric == after.names_by_metric
    assert reached.partition_count == after.partition_count


def test_one_more_topic_among_ten_thousand_costs_little() -> None:
    """Tables are copied, which takes 0.4 ms; no Python runs for each topic, which would take a hundred times that."""
    change = TopicCreated(topic("one.more", 20_000))
    few, many = (EMPTY.apply(TopicCreated(topic(f"topic.{n}", n)) for n in range(count)) for count in (10, 10_000))
    few_lines, many_lines = (lines_executed(partial(image.apply, [change]), within="metadata") for image in (few, many))
    assert few_lines == many_lines
    assert many.apply([change]).partition_count == 10_001
