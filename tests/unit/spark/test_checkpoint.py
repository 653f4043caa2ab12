"""Spark's offset log, in its two formats."""

from __future__ import annotations

import pytest

from semel.spark.checkpoint import parse_ends
from semel.spark.plan import QueryPlan
from semel.spark.refusals import Refused
from semel.types import TopicPartition

ORDERS = '{"orders": {"0": 5}}'
SHIPMENTS = '{"shipments": {"0": 7}}'
WANTED = [{TopicPartition("orders", 0): 5}, {TopicPartition("shipments", 0): 7}]


@pytest.mark.parametrize(
    ("text", "source_ids"),
    [
        pytest.param(f"v1\n{{}}\n{ORDERS}\n{SHIPMENTS}", ("0", "1"), id="v1"),
        pytest.param(f"v1\n{{}}\n{ORDERS}\n{SHIPMENTS}\n", ("a", "b"), id="v1 has no names"),
        pytest.param(f"v2\n{{}}\n0:{ORDERS}\n1:{SHIPMENTS}", ("0", "1"), id="v2"),
        pytest.param(f"v2\n{{}}\nb:{SHIPMENTS}\na:{ORDERS}", ("a", "b"), id="v2 with names, in any order"),
    ],
)
def test_either_format_tells_where_each_source_ends(text: str, source_ids: tuple[str, ...]) -> None:
    assert parse_ends(text, source_ids, "offsets/3") == WANTED


def test_a_source_that_has_read_nothing_yet_ends_nowhere() -> None:
    assert parse_ends(f"v1\n{{}}\n-\n{SHIPMENTS}", ("0", "1"), "offsets/3") == [{}, WANTED[1]]
    assert parse_ends(f"v2\n{{}}\n1:{SHIPMENTS}\n0:-", ("0", "1"), "offsets/3") == [{}, WANTED[1]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(f"v3\n{{}}\n{ORDERS}\n{SHIPMENTS}", "has the format 'v3', and v1 and v2 are known", id="format"),
        pytest.param(f"v1\n{{}}\n{ORDERS}", "is of a query with 1 sources; this one has 2", id="fewer sources"),
        pytest.param(
            f"v2\n{{}}\n0:{ORDERS}\nb:{SHIPMENTS}", r"2 sources \(0, b\); this one has 2 \(0, 1\)", id="names"
        ),
    ],
)
def test_a_checkpoint_of_another_query_or_another_spark_is_refused(text: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        parse_ends(text, ("0", "1"), "offsets/3")


def test_sources_without_names_are_numbered() -> None:
    plan = QueryPlan((), (), False, (None, "orders", None))
    assert plan.source_ids == ("0", "orders", "2")
