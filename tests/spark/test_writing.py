"""What tasks do, without Spark around them: partitioning rows, and writing them under the driver's transaction."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from semel.blocking import Admin, Producer
from semel.client.arrow.decoding import HEADERS_TYPE
from semel.client.machine.producer.murmur2 import positive_murmur2
from semel.client.values import ProducerIdentity
from semel.errors import KafkaError
from semel.spark.sink.row_partitioning import BadRow, RowPartitioner
from semel.spark.sink.sink import Sink, WriteJob, no_step_hook
from semel.spark.sink.writing import write
from semel.testing import Broker
from tests.spark.topics import committed, create
from tools.patience import PATIENCE_S


def job(
    broker: Broker, identity: ProducerIdentity, *, writers: int = 2, now_ms: int = 1_000, **changes: Any
) -> WriteJob:
    settings = {"bootstrap_servers": broker.bootstrap_servers, "transactional_id": "jobs"}
    chosen = {"topic": None, "dead_letter_topic": None, "partitioner": None, "reached": no_step_hook, **changes}
    return WriteJob(Sink(settings, **chosen), identity, 0, now_ms, writers, {})


def rows(*values: dict[str, Any], **types: pa.DataType) -> pa.RecordBatch:
    """As they come from Spark, made by task 1."""
    schema = {"topic": pa.string(), "key": pa.binary(), "value": pa.binary(), "task": pa.int32(), **types}
    return pa.RecordBatch.from_pylist([{"task": 1, **row} for row in values], schema=pa.schema(schema))


@pytest.fixture
def owner(broker: Broker) -> Iterator[Producer]:
    create(broker, "out", "other", "dead")
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="jobs") as producer:
        yield producer


def partitioned(broker: Broker, owner: Producer, batch: pa.RecordBatch, **changes: Any) -> pa.RecordBatch:
    identity = owner.identity
    (result,) = RowPartitioner(job(broker, identity, **changes)).partitioned(iter([batch]))
    return result


def test_rows_go_where_kafkas_own_client_would_send_them(broker: Broker, owner: Producer) -> None:
    keys = [b"key-%d" % number for number in range(40)]
    result = partitioned(broker, owner, rows(*({"topic": "out", "key": key, "value": b"v"} for key in keys)))
    assert result.column("partition").to_pylist() == [positive_murmur2(key) % 2 for key in keys]


def test_a_partition_has_one_writer_whatever_the_topic(broker: Broker, owner: Producer) -> None:
    topics = [topic for topic in ("out", "other") for _ in range(30)]
    batch = rows(*({"topic": topic, "key": b"%d" % number, "value": b"v"} for number, topic in enumerate(topics)))
    result = partitioned(broker, owner, batch, writers=3)
    written = set(zip(*(result.column(name).to_pylist() for name in ("topic", "partition", "writer")), strict=True))
    assert len(written) == 4


def test_rows_without_a_key_stay_together_and_a_said_partition_is_obeyed(broker: Broker, owner: Producer) -> None:
    batch = rows(
        {"topic": "out", "value": b"1"},
        {"topic": "out", "value": b"2"},
        {"topic": "out", "key": b"k", "value": b"3", "partition": 0},
        partition=pa.int32(),
    )
    assert partitioned(broker, owner, batch).column("partition").to_pylist() == [1, 1, 0]


def test_rows_of_one_topic_need_not_say_so(broker: Broker, owner: Producer) -> None:
    batch = rows({"key": b"k", "value": b"v"}).drop_columns(["topic"])
    assert partitioned(broker, owner, batch, topic="out").column("topic").to_pylist() == ["out"]


def test_a_partitioner_chooses(broker: Broker, owner: Producer) -> None:
    batch = rows(*({"topic": "out", "key": b"k", "value": b"%d" % number} for number in range(4)))
    result = partitioned(broker, owner, batch, partitioner=lambda topic, key, value, count: int(value or b"") % count)
    assert result.column("partition").to_pylist() == [0, 1, 0, 1]


BAD = rows(
    {"topic": "out", "key": b"good", "value": b"v", "offset": 1},
    {"topic": None, "key": b"nowhere", "value": b"v", "offset": 2},
    {"topic": "nope", "key": b"unknown", "value": b"v", "offset": 3},
    {"topic": "out", "key": b"large", "value": b"v" * 2_000_000, "offset": 4},
    headers=HEADERS_TYPE,
    offset=pa.int64(),
)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (1, r"a row from source offset 2 with key b'nowhere' cannot be written: its topic is null"),
        (2, r"a row from source offset 3 with key b'unknown' cannot be written: there is no topic 'nope'"),
        (3, r"a row from source offset 4 with key b'large' cannot be written: it takes 2000005 bytes"),
    ],
)
def test_a_bad_row_stops_the_batch_and_is_named(broker: Broker, owner: Producer, row: int, reason: str) -> None:
    with pytest.raises(BadRow, match=reason):
        partitioned(broker, owner, BAD.slice(row, 1))


def test_a_row_for_an_internal_topic_is_a_bad_row(broker: Broker, owner: Producer) -> None:
    batch = rows({"topic": "__transaction_state", "key": b"k", "value": b"v"})
    with pytest.raises(BadRow, match="'__transaction_state' is an internal topic, to which only brokers write"):
        partitioned(broker, owner, batch)


def test_bad_rows_go_to_the_dead_letter_topic_with_the_reason(broker: Broker, owner: Producer) -> None:
    result = partitioned(broker, owner, BAD, dead_letter_topic="dead").to_pylist()
    assert [row["topic"] for row in result] == ["out", "dead", "dead", "dead"]
    assert [row["value"] for row in result] == [b"v", b"v", b"v", None]
    assert result[0]["headers"] is None
    assert result[2]["headers"] == [
        {"key": "semel-error", "value": b"there is no topic 'nope'"},
        {"key": "semel-offset", "value": b"3"},
    ]


def test_a_bad_row_that_would_be_too_large_as_a_dead_letter_leaves_out_what_is_too_large(
    broker: Broker, owner: Producer
) -> None:
    """The reason makes a record larger, and a key may be too large alone."""
    whole = 1_048_576 - 61 - 32
    header = [{"key": "h", "value": b"x" * 100}]
    batch = rows(
        {"topic": "nope", "key": b"k", "value": b"v" * (whole - 1)},
        {"topic": "out", "key": b"k" * 2_000_000, "value": b"v", "headers": header},
        headers=HEADERS_TYPE,
    )
    dead = partitioned(broker, owner, batch, dead_letter_topic="dead")
    assert [(row["key"], row["value"]) for row in dead.to_pylist()] == [(b"k", None), (None, None)]
    assert [[one["key"] for one in row["headers"]] for row in dead.to_pylist()] == [["semel-error"], ["semel-error"]]
    owner.begin()
    (counts,) = write(iter([dead]), job(broker, owner.identity, dead_letter_topic="dead"))
    owner.commit()
    assert sum(row["records"] for row in counts.to_pylist()) == 2
    assert len(committed(broker, "dead")) == 2


def test_a_row_with_a_timestamp_before_1970_is_a_bad_row(broker: Broker, owner: Producer) -> None:
    times = (5, -1, None, -2, -86_400_000)
    batch = rows(
        *({"topic": "out", "key": b"%d" % number, "timestamp": at} for number, at in enumerate(times)),
        headers=HEADERS_TYPE,
        timestamp=pa.int64(),
    )
    with pytest.raises(BadRow, match="with key b'3' cannot be written: its timestamp is before 1970"):
        partitioned(broker, owner, batch)
    result = partitioned(broker, owner, batch, dead_letter_topic="dead")
    owner.begin()
    list(write(iter([result]), job(broker, owner.identity, dead_letter_topic="dead")))
    owner.commit()
    assert sorted(record.key or b"" for record in committed(broker, "out")) == [b"0", b"1", b"2"]
    assert sorted(record.key or b"" for record in committed(broker, "dead")) == [b"3", b"4"]
    assert result.column("timestamp").to_pylist() == [5, -1, None, None, None], "null: the time of the batch"


def test_a_row_whose_timestamp_is_too_far_in_the_future_for_its_topic_is_a_bad_row(
    broker: Broker, owner: Producer
) -> None:
    """The broker would refuse the whole batch with INVALID_TIMESTAMP. A topic that takes the broker's time does not."""
    hour_ms = 3_600_000
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.topics.create("appended", configs={"message.timestamp.type": "LogAppendTime"})
        admin.topics.create("patient", configs={"message.timestamp.after.max.ms": str(10 * hour_ms)})
    now_ms = int(time.time() * 1000)
    topics = {"out": (-hour_ms, hour_ms // 2, 2 * hour_ms), "appended": (2 * hour_ms,), "patient": (2 * hour_ms,)}
    batch = rows(
        *(
            {"topic": topic, "key": f"{topic} {ahead_ms}".encode(), "timestamp": now_ms + ahead_ms}
            for topic, times in topics.items()
            for ahead_ms in times
        ),
        headers=HEADERS_TYPE,
        timestamp=pa.int64(),
    )
    with pytest.raises(BadRow, match=r"its timestamp is 7200000 ms in the future; message\.timestamp\.after\.max\.ms"):
        partitioned(broker, owner, batch, now_ms=now_ms)
    result = partitioned(broker, owner, batch, now_ms=now_ms, dead_letter_topic="dead")
    owner.begin()
    list(write(iter([result]), job(broker, owner.identity, dead_letter_topic="dead")))
    owner.commit()
    assert [record.key for record in committed(broker, "dead")] == [b"out 7200000"]
    assert sorted(record.key or b"" for record in committed(broker, "out")) == [b"out -3600000", b"out 1800000"]
    assert [record.key for name in ("appended", "patient") for record in committed(broker, name)] == [
        b"appended 7200000",
        b"patient 7200000",
    ]


def written(broker: Broker, identity: ProducerIdentity, *values: bytes) -> None:
    batch = rows(*({"topic": "out", "value": value, "partition": 0} for value in values), partition=pa.int32())
    (counts,) = write(iter([batch]), job(broker, identity))
    assert counts.to_pylist() == [{"topic": "out", "partition": 0, "records": len(values)}]


def outputs(broker: Broker) -> list[bytes | None]:
    return [record.value for record in committed(broker, "out")]


def test_tasks_write_within_the_owners_transaction(broker: Broker, owner: Producer) -> None:
    owner.begin()
    written(broker, owner.identity, b"a", b"b")
    owner.commit()
    owner.begin()
    written(broker, owner.identity, b"c")
    owner.commit()
    assert outputs(broker) == [b"a", b"b", b"c"]


def test_no_rows_write_nothing_and_send_nothing(broker: Broker, owner: Producer) -> None:
    owner.begin()
    assert list(write(iter([rows(partition=pa.int32())]), job(broker, owner.identity))) == []
    owner.abort()


@pytest.mark.parametrize("outcome", ["commit", "abort"])
def test_a_zombie_that_was_given_its_identity_before_the_end_is_refused_after_it(
    broker: Broker, owner: Producer, outcome: str
) -> None:
    """Scenario 71: a task of an old attempt writes on, after the driver has ended its transaction."""
    owner.begin()
    identity = owner.identity
    written(broker, identity, b"in time")
    getattr(owner, outcome)()
    with pytest.raises(KafkaError):
        written(broker, identity, b"too late")
    owner.begin()
    written(broker, owner.identity, b"next")
    owner.commit()
    assert outputs(broker) == ([b"in time", b"next"] if outcome == "commit" else [b"next"])


def test_a_zombie_of_an_older_driver_is_refused(broker: Broker, owner: Producer) -> None:
    owner.begin()
    identity = owner.identity
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="jobs") as newer:
        with pytest.raises(KafkaError):
            written(broker, identity, b"zombie")
        newer.begin()
        written(broker, newer.identity, b"new driver")
        newer.commit()
    assert outputs(broker) == [b"new driver"]


def test_on_a_cluster_with_transactions_v1_a_bump_of_the_epoch_refuses_the_zombie() -> None:
    """With V1 an end of a transaction leaves the epoch as it is, so the driver bumps it before every batch."""
    with Broker(num_partitions=2, transaction_version=1) as older:
        create(older, "out")
        with Producer(bootstrap_servers=older.bootstrap_servers, transactional_id="jobs") as owner:
            owner.begin()
            identity = owner.identity
            assert identity.transaction_version == 1
            written(older, identity, b"in time")
            owner.commit()
            owner.bump_epoch()
            with pytest.raises(KafkaError):
                written(older, identity, b"too late")
            owner.begin()
            written(older, owner.identity, b"next")
            owner.commit()
        assert outputs(older) == [b"in time", b"next"]


def test_a_topic_that_gets_partitions_during_a_batch_is_written_to_its_new_ones(
    broker: Broker, owner: Producer
) -> None:
    owner.begin()
    written(broker, owner.identity, b"old")  # This process knows the topic with two partitions now.
    owner.commit()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for grown in admin.create_partitions([NewPartitions("out", 3)]).values():
        grown.result(timeout=PATIENCE_S)
    owner.begin()
    batch = rows({"topic": "out", "value": b"new", "partition": 2}, partition=pa.int32())
    list(write(iter([batch]), job(broker, owner.identity)))
    owner.commit()
    assert sorted((record.partition, record.value) for record in committed(broker, "out")) == [(0, b"old"), (2, b"new")]


def test_two_attempts_under_one_epoch_lose_rows_which_is_why_there_are_none(broker: Broker, owner: Producer) -> None:
    """What the barrier stage is for. If this ever fails, the broker compares contents, and the rule could go."""
    owner.begin()
    identity = owner.identity
    written(broker, identity, b"first attempt")
    from semel.spark.sink import writing

    writing._producers.clear()  # As in another process.
    written(broker, identity, b"second attempt")
    owner.commit()
    assert outputs(broker) == [b"first attempt"]
