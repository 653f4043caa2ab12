"""What can be subscribed to: a list of names, or a pattern."""

from __future__ import annotations

from typing import Any

import pytest

from semel import Consumer, blocking
from semel.client.machine.group.subscription import TopicSubscription


@pytest.mark.parametrize("topics", ["in", b"in"])
def test_one_name_is_no_list_of_names(topics: Any) -> None:
    with pytest.raises(TypeError, match=rf"give a list of names, such as \[{topics!r}\]"):
        TopicSubscription.of(topics, None)


def test_both_consumers_refuse_it() -> None:
    consumer = Consumer(bootstrap_servers="localhost:1", group_id="g")
    with pytest.raises(TypeError, match=r"such as \['in'\]"):
        consumer.subscribe("in")
    with (
        blocking.Consumer(bootstrap_servers="localhost:1", group_id="g") as threaded,
        pytest.raises(TypeError, match=r"such as \['in'\]"),
    ):
        threaded.subscribe("in")


@pytest.mark.parametrize("topics", [[1], ["in", None], [b"in"]])
def test_names_are_text(topics: Any) -> None:
    with pytest.raises(TypeError, match="the name of a topic is a str"):
        TopicSubscription.of(topics, None)


@pytest.mark.parametrize("topics", [[], [""], ["in", ""]])
def test_there_is_one_name_at_least_and_none_is_empty(topics: list[str]) -> None:
    with pytest.raises(ValueError, match="name one at least"):
        TopicSubscription.of(topics, None)


@pytest.mark.parametrize("topics", [["a", "b", "a"], ("a", "b"), {"a": 1, "b": 2}, iter("ab")])
def test_any_iterable_of_names_is_taken_once_each(topics: Any) -> None:
    assert TopicSubscription.of(topics, None).topics == ("a", "b")
