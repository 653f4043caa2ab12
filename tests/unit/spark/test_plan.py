"""The offsets of all sources of a query, as one batch has them."""

from __future__ import annotations

import pytest

from semel.spark.decision import SourcePartition
from semel.spark.errors import PipelineError
from semel.spark.plan import QueryPlan
from semel.spark.source.options import SourceOptions
from semel.types import TopicPartition

P0 = TopicPartition("orders-1", 0)


def source(pattern: str, group_id: str) -> SourceOptions:
    options = {"kafka.bootstrap.servers": "a:1", "kafka.group.id": group_id, "subscribePattern": pattern}
    return SourceOptions.parse(options, is_streaming=True)


def test_two_groups_have_an_offset_each_for_one_partition() -> None:
    plan = QueryPlan((source("orders-.*", "one"), source(".*-1", "other")), (), is_stateful=False)
    assert plan.source_offsets([{P0: 5}, {P0: 7}]) == {SourcePartition("one", P0): 5, SourcePartition("other", P0): 7}


def test_a_topic_that_appears_and_that_two_sources_of_one_group_match_stops_the_query() -> None:
    plan = QueryPlan((source("orders-.*", "one"), source(".*-1", "one")), (), is_stateful=False)
    with pytest.raises(PipelineError, match="two sources read 'orders-1' under group 'one', which has one offset"):
        plan.source_offsets([{P0: 5}, {P0: 7}])
