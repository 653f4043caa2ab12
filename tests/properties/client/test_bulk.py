"""A bulk becomes the very requests that its records would have become one by one: same partitions, batches, bytes."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from semel.client.machine.producer.partitioner import Partitioner
from semel.client.values import BulkMetadata
from semel.wire.apis import ApiKey
from semel.wire.records import parse_header
from tests.properties.wire.test_records_properties import deterministic, headers, payloads, timestamps
from tests.unit.client.machine.model_cluster import ModelCluster
from tests.unit.client.machine.producer.bulks import Fields, bulk_of, send_bulk, settle_all
from tests.unit.client.machine.producer.producers import Producing, producing

PARTITIONS = 5

partitions = st.one_of(st.none(), st.integers(0, PARTITIONS - 1))
# Short: a long one only takes long to hash, and how it is hashed is tested in test_arrow.
keys = st.one_of(st.none(), st.binary(max_size=80))
sent_timestamps = timestamps.map(lambda given: max(0, given))  # Senders cannot give others.
rows = st.lists(st.tuples(keys, payloads, partitions, headers, sent_timestamps), min_size=1, max_size=80)
sizes = st.one_of(st.integers(0, 400), st.integers(400, 20_000))
codecs = st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"])


def producer(partitioner: Partitioner | None = None, **settings: Any) -> Producing:
    made = producing(ModelCluster(topics={"orders": PARTITIONS}), seed=7, partitioner=partitioner, **settings)
    made.machine.know_topic("orders", 0.0)
    made.turn()
    return made


def requests(producer: Producing) -> dict[int, list[bytes]]:
    """Every batch that was sent to each partition."""
    found: dict[int, list[bytes]] = {}
    for request in producer.bench.requests(ApiKey.PRODUCE):
        for topic in request.message.topic_data:
            for partition in topic.partition_data:
                found.setdefault(partition.index, []).append(bytes(partition.records))
    return found


def one_by_one(producer: Producing, records: list[Fields]) -> dict[int, list[bytes]]:
    for number, (key, value, partition, header_pairs, timestamp) in enumerate(records):
        producer.machine.add("orders", value, key, partition, header_pairs, timestamp, number, 0.0)
    producer.advance(0)
    return requests(producer)


def in_bulk(producer: Producing, records: list[Fields]) -> tuple[dict[int, list[bytes]], BulkMetadata]:
    future = send_bulk(producer, records)
    producer.bench.advance(0)
    settle_all(producer)
    assert future.error is None
    return requests(producer), future.result


def record_count(batches: list[bytes]) -> int:
    return sum(parse_header(batch).record_count for batch in batches)


@deterministic
@given(rows, sizes, codecs, st.booleans())
@example([(None, b"x" * 300, None, (), 0)] * 80, 1_000, "none", False)
@example([(None, b"", None, (), 0)] * 40, 2 * 26, "none", False)
@example([(b"k%d" % n, b"v", None, (("\u00e9", None),), n) for n in range(80)], 300, "zstd", True)
@example([(b"k" * 20_000, b"v", None, (), 0), (None, b"v", None, (), 0)] * 3, 1_000, "none", False)
@example([(None, b"v%d" % n, n // 100 % 3, (), 0) for n in range(600)], 1_000, "none", False)
@example([(None, b"v%d" % n, None if n // 100 % 2 else 3, (), 0) for n in range(600)], 1_000, "none", False)
def test_a_bulk_is_sent_as_its_records_would_be_one_by_one(
    records: list[Fields], batch_size: int, codec: str, ignores_keys: bool
) -> None:
    settings = {"batch_size": batch_size, "compression_type": codec, "partitioner_ignore_keys": ignores_keys}
    expected = one_by_one(producer(**settings), records)
    sent, written = in_bulk(producer(**settings), records)
    assert sent == expected
    assert written.record_count == len(records)
    assert {number: part.record_count for number, part in written.partitions.items()} == {
        partition: record_count(batches) for partition, batches in sorted(expected.items())
    }
    assert all(
        part.first_offset == 0 and part.last_offset == part.record_count - 1 for part in written.partitions.values()
    )


@deterministic
@given(rows, sizes, st.integers(1, 3_000), st.integers(1, 3_000))
@example([(b"k%d" % n, b"v" * (n % 41), None, (), 0) for n in range(80)], 400, 300, 1_000)
@example([(None, b"v" * (n % 41), None, (), n) for n in range(80)], 400, 300, 1)
def test_it_makes_no_difference_in_how_many_pieces_a_bulk_is_taken_and_looked_at(
    records: list[Fields], batch_size: int, piece_bytes: int, window_bytes: int
) -> None:
    def taken(size_bytes: int, **how: int) -> dict[int, list[bytes]]:
        made = producer(batch_size=batch_size)
        bulk = bulk_of(made, records * 5, **how)
        view = made.machine._metadata.view.topics["orders"]
        assert bulk.spread(view, made.machine.admission._partitioning) is None
        found: dict[int, list[bytes]] = {}
        while pieces := bulk.take(size_bytes):
            for partition, batch, _ in pieces:
                found.setdefault(partition, []).append(batch)
        return found

    assert taken(piece_bytes, window_bytes=window_bytes) == taken(2**30)


@deterministic
@given(rows)
def test_a_partitioner_of_ones_own_is_asked_for_every_record(records: list[Fields]) -> None:
    def by_length(topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        return (len(key or b"") + len(value or b"")) % count

    expected = one_by_one(producer(by_length), records)
    assert in_bulk(producer(by_length), records)[0] == expected


@deterministic
@given(rows, rows, sizes)
def test_what_was_sent_before_and_after_a_bulk_keeps_its_place(
    before: list[Fields], after: list[Fields], batch_size: int
) -> None:
    bulk = [(b"", b"bulk %d" % number, 0, (), 0) for number in range(50)]
    producing = producer(batch_size=batch_size)
    for number, (key, value, _, header_pairs, timestamp) in enumerate(before):
        producing.machine.add("orders", value, key, 0, header_pairs, timestamp, ("before", number), 0.0)
    send_bulk(producing, bulk)
    for number, (key, value, _, header_pairs, timestamp) in enumerate(after):
        producing.machine.add("orders", value, key, 0, header_pairs, timestamp, ("after", number), 0.0)
    producing.bench.advance(0)
    log = producing.cluster.log("orders", 0).values
    assert log == [record[1] for record in (*before, *bulk, *after)]
