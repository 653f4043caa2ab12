"""What a user may set on the source."""

from __future__ import annotations

import pytest

from semel.spark.source.offsets import AtTime, Earliest, Latest
from semel.spark.source.options import SourceOptions, Subscription
from semel.types import TopicPartition

LEAST = {"kafka.bootstrap.servers": "b:9092", "subscribe": "orders"}


def test_the_least_that_a_stream_needs() -> None:
    options = SourceOptions.parse(LEAST, is_streaming=True)
    assert options == SourceOptions(
        settings={"bootstrap_servers": "b:9092", "default_api_timeout_ms": "600000"},
        group_id=None,
        subscription=Subscription(topics=("orders",)),
        starting=Latest(),
        starting_option=None,
        ending=Latest(),
        max_offsets_per_trigger=None,
        min_partitions=None,
        include_headers=False,
        fail_on_data_loss=True,
        reads_committed=True,
    )
    assert SourceOptions.parse(LEAST, is_streaming=False).starting == Earliest()


def test_a_stream_waits_longer_for_brokers_that_are_away_than_a_client_by_itself() -> None:
    def timeout(is_streaming: bool, **said: str) -> str | None:
        given = {name.replace("_", "."): value for name, value in said.items()}
        return SourceOptions.parse({**LEAST, **given}, is_streaming=is_streaming).settings.get("default_api_timeout_ms")

    assert timeout(True) == "600000"
    assert timeout(True, outageTimeoutMs="5000") == "5000"
    assert timeout(True, kafka_default_api_timeout_ms="7000") == "7000"
    assert timeout(False) is None


def test_spark_hands_names_over_in_lower_case() -> None:
    given = {
        "kafka.bootstrap.servers": "b:9092",
        "assign": '{"orders": [1]}',
        "startingtimestamp": "5",
        "maxoffsetspertrigger": "10",
        "minpartitions": "4",
        "includeheaders": "TRUE",
        "failondataloss": "false",
        "kafka.group.id": "jobs",
        "kafka.isolation.level": "read_uncommitted",
        "kafka.fetch.max.bytes": "1000",
    }
    options = SourceOptions.parse(given, is_streaming=True)
    assert options.subscription == Subscription(assigned=(TopicPartition("orders", 1),))
    assert options.starting == AtTime(5, or_latest=False)
    assert (options.max_offsets_per_trigger, options.min_partitions) == (10, 4)
    assert (options.include_headers, options.fail_on_data_loss, options.reads_committed) == (True, False, False)
    assert options.group_id == "jobs"
    assert options.starting_option == "startingTimestamp"
    waits = {"default_api_timeout_ms": "600000"}
    assert options.settings == {"bootstrap_servers": "b:9092", "fetch_max_bytes": "1000", **waits}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"subscribePattern": "o.*"}, "exactly one of assign, subscribe, subscribePattern; set: subscribe, subscribeP"),
        ({"startingOffset": "latest"}, "no option 'startingoffset'; did you mean startingOffsets?"),
        ({"endingOffsets": "latest"}, "a stream has no end"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is 0; it is at least 1"),
        ({"minPartitions": "many"}, "minPartitions is 'many'; it is a whole number"),
        ({"includeHeaders": "yes"}, "includeHeaders is 'yes'; it is true or false"),
        ({"kafka.isolation.level": "snapshot"}, "kafka.isolation.level is 'snapshot'"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "it is error or latest"),
    ],
)
def test_what_is_wrong_is_refused_by_name(change: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        SourceOptions.parse({**LEAST, **change}, is_streaming=True)


def test_servers_are_needed() -> None:
    with pytest.raises(ValueError, match=r"kafka\.bootstrap\.servers is missing"):
        SourceOptions.parse({"subscribe": "orders"}, is_streaming=True)


def test_a_pattern_must_be_one() -> None:
    with pytest.raises(ValueError, match="subscribePattern"):
        SourceOptions.parse({"kafka.bootstrap.servers": "b:9092", "subscribePattern": "("}, is_streaming=True)
