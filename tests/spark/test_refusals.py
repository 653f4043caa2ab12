"""What is refused before anything starts, as far as it takes no Spark to see it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.conf import SparkConf

from semel.spark.options import SourceOptions
from semel.spark.plan import QueryPlan
from semel.spark.refusals import Refused, check_plan, check_session, check_version

SOURCE = {"kafka.bootstrap.servers": "b:9092", "subscribe": "in", "kafka.group.id": "jobs"}


def session(slots: int, **settings: str) -> Any:
    conf = SparkConf(loadDefaults=False, _jvm=None)
    for name, value in settings.items():
        conf.set(name.replace("__", "."), value)
    return SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=slots, getConf=lambda: conf))


def plan(*sources: dict[str, str], foreign: tuple[str, ...] = ()) -> QueryPlan:
    parsed = tuple(SourceOptions.parse(options, is_streaming=True) for options in sources)
    return QueryPlan(parsed, foreign, is_stateful=False)


def test_dynamic_allocation_is_refused_with_what_to_set() -> None:
    with pytest.raises(
        Refused, match=r"spark\.dynamicAllocation\.enabled is true.* Set it to false, and spark\.executor"
    ):
        check_session(session(4, spark__dynamicAllocation__enabled="true"), None)


def test_as_many_write_as_there_are_slots_and_never_more() -> None:
    assert check_session(session(4), None) == 4
    assert check_session(session(4), 3) == 3
    with pytest.raises(Refused, match="writers=5, and there are 4 task slots"):
        check_session(session(4), 5)
    with pytest.raises(Refused, match="writers=0; it is at least 1"):
        check_session(session(4), 0)


@pytest.mark.parametrize(
    ("sources", "foreign", "message"),
    [
        ((), (), "the DataFrame is no stream"),
        ((SOURCE,), ("rate",), "the query reads 'rate', whose offsets are not in the transaction"),
        (({**SOURCE, "kafka.isolation.level": "read_uncommitted"},), (), "may be aborted later"),
        ((SOURCE, SOURCE), (), "two sources read 'in' under group 'jobs'"),
    ],
)
def test_a_query_is_refused(sources: tuple[dict[str, str], ...], foreign: tuple[str, ...], message: str) -> None:
    with pytest.raises(Refused, match=message):
        check_plan(plan(*sources, foreign=foreign))


def test_sources_that_differ_in_topic_or_group_are_fine() -> None:
    check_plan(plan(SOURCE, {**SOURCE, "subscribe": "more"}, {**SOURCE, "kafka.group.id": "others"}))


def test_older_versions_of_spark_are_refused_by_name() -> None:
    with pytest.raises(Refused, match=r"PySpark 4\.1\.1 has no"):
        check_version("4.1.1")
    check_version("4.2.0")
