"""Subscriptions by regular expression (version 1 of ConsumerGroupHeartbeat)."""

from __future__ import annotations

from random import Random

import pytest

from semel.coordinator.group.consumer import subscription
from semel.coordinator.group.consumer.records import ResolvedRegex
from semel.coordinator.regex.regex import Regex
from semel.errors import ErrorCode
from tests.unit.coordinator.group.consumer.simulated_group import GROUP, WALL_MS, Coordinator, Member, Topics, settle


def with_regex(coordinator: Coordinator, member_id: str, regex: str, *topics: str) -> Member:
    return Member(coordinator, member_id, topics=topics, regex=regex)


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator(Topics(orders=2, orders_eu=2, payments=2, __consumer_offsets=2))


def test_it_means_every_topic_whose_whole_name_matches(coordinator: Coordinator) -> None:
    member = with_regex(coordinator, "member", "orders|pay")
    settle(member)

    assert member.owned == coordinator.topics.partitions("orders")


def test_it_means_internal_topics_too(coordinator: Coordinator) -> None:
    """The coordinator of Kafka leaves none out; clients that resolve a pattern themselves do."""
    member = with_regex(coordinator, "member", ".*")
    settle(member)

    assert member.owned == coordinator.topics.partitions("orders", "orders_eu", "payments", "__consumer_offsets")


def test_names_and_a_regular_expression_add_up(coordinator: Coordinator) -> None:
    member = with_regex(coordinator, "member", "orders.*", "payments")
    settle(member)

    assert member.owned == coordinator.topics.partitions("orders", "orders_eu", "payments")


def test_what_it_means_is_recorded(coordinator: Coordinator) -> None:
    settle(with_regex(coordinator, "member", "orders.*"))

    resolved = ResolvedRegex(GROUP, "orders.*", ("orders", "orders_eu"), coordinator.topics.version, WALL_MS)
    assert coordinator.group.regexes == {"orders.*": resolved}


def test_it_is_resolved_again_when_topics_come_and_go(coordinator: Coordinator) -> None:
    member = with_regex(coordinator, "member", "orders.*")
    settle(member)
    epoch = coordinator.group.epoch

    coordinator.topics.create("orders_us", 2)
    coordinator.topics.delete("orders")
    settle(member)

    assert member.owned == coordinator.topics.partitions("orders_eu", "orders_us")
    assert coordinator.group.epoch == epoch + 1


def test_one_that_cannot_be_understood_is_refused(coordinator: Coordinator) -> None:
    assert with_regex(coordinator, "member", "orders(").beat().error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert coordinator.log == []


def test_one_that_would_hold_up_everybody_is_refused(coordinator: Coordinator) -> None:
    answer = with_regex(coordinator, "member", "(.?){999}").beat()
    assert answer.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "too large" in (answer.message or "")
    assert coordinator.log == []


def test_one_that_takes_too_long_over_the_topics_that_there_are_is_refused(coordinator: Coordinator) -> None:
    """Small enough for few names, but each of these leads it to other places."""
    costly = ".*(" + "|".join(["a[abc]{40}"] * 40) + ")"
    settle(with_regex(coordinator, "early", costly))
    random = Random(13)
    for _ in range(40):
        coordinator.topics.create("".join(random.choices("abc", k=249)), 1)

    other = costly.replace("40}", "39}")
    answer = with_regex(coordinator, "member", other).beat()

    assert answer.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "too long" in (answer.message or "")


def test_names_that_were_looked_at_before_are_not_looked_at_again(coordinator: Coordinator) -> None:
    pattern = ".*a[abc]{39}"
    member = with_regex(coordinator, "member", pattern)
    random = Random(13)
    for _ in range(10):
        coordinator.topics.create("".join(random.choices("abc", k=249)), 1)
    settle(member)
    regex = subscription._compiled(pattern)._regex
    assert isinstance(regex, Regex)
    work = regex.work
    assert work > 5000

    coordinator.topics.create("a" * 40, 1)
    settle(member)

    assert regex.work - work < 1500
    assert coordinator.topics.partitions("a" * 40) <= member.owned


def test_an_empty_one_takes_it_back(coordinator: Coordinator) -> None:
    member = with_regex(coordinator, "member", "orders.*", "payments")
    settle(member)

    member.beat(topic_regex="")
    settle(member)

    assert member.owned == coordinator.topics.partitions("payments")
    assert coordinator.group.regexes == {}


def test_it_is_forgotten_with_the_last_member_that_uses_it(coordinator: Coordinator) -> None:
    first, second = with_regex(coordinator, "first", "orders.*"), with_regex(coordinator, "second", "orders.*")
    settle(first, second)

    first.leave()
    assert set(coordinator.group.regexes) == {"orders.*"}
    second.leave()
    assert coordinator.group.regexes == {}


def test_the_offsets_of_its_topics_are_those_of_subscribed_topics(coordinator: Coordinator) -> None:
    settle(with_regex(coordinator, "member", "orders.*"))

    assert coordinator.group.is_subscribed("orders_eu")
    assert not coordinator.group.is_subscribed("payments")


def test_a_group_has_few_of_them(coordinator: Coordinator) -> None:
    members = [with_regex(coordinator, f"member-{n}", f"orders.*{n}?") for n in range(subscription.GROUP_PATTERNS_MAX)]
    settle(*members)

    answer = with_regex(coordinator, "another", "pay.*").beat()
    assert answer.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "the limit is 10 for a group" in (answer.message or "")
    same = with_regex(coordinator, "same", "orders.*1?")
    settle(*members, same)
    assert same.epoch > 0, "one that the group has already"


def test_none_is_resolved_again_while_the_topics_stay_the_same(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(with_regex(coordinator, "first", "orders.*"))
    resolved: list[str] = []
    matching = subscription._matching
    monkeypatch.setattr(
        subscription, "_matching", lambda regex, topics: resolved.append(regex) or matching(regex, topics)
    )

    second = with_regex(coordinator, "second", "pay.*")
    second.beat()
    assert resolved == ["pay.*"]
    coordinator.topics.create("payments_us", 1)
    second.beat()
    assert resolved == ["pay.*", "orders.*", "pay.*"]
