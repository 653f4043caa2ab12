"""A record comes back as it was written, whichever client wrote it and whichever reads it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.clients.conftest import LIBRARIES
from tests.clients.libraries import CREATE_TIME, LOG_APPEND_TIME, Library, Record, Since, Stored, TooLarge
from tests.clients.libraries.sending import CODECS, Codec, Sending
from tools.patience import PATIENCE_MS
from tools.server import Server

NOON_MS = 1_700_000_000_000

RECORDS = (
    Record(b"value", b"key", timestamp_ms=NOON_MS),
    Record(b"no key", None, timestamp_ms=NOON_MS + 1),
    Record(None, b"no value: a tombstone", timestamp_ms=NOON_MS + 2),
    Record(b"", b"", timestamp_ms=NOON_MS + 3),
    Record(
        b"headers",
        b"k",
        (("trace", b"1"), ("trace", b"2"), ("empty", b""), ("\u00e9t\u00e9", b"\x00\xff")),
        NOON_MS + 4,
    ),
    Record(bytes(range(256)) * 40, b"\x00\xff", timestamp_ms=NOON_MS + 5),
    Record(b"a" * 20_000, b"compressible", timestamp_ms=NOON_MS + 6),
    Record(b"earlier than the one before it", b"k", timestamp_ms=NOON_MS - 5),
)


@pytest.mark.parametrize("codec", CODECS)
def test_what_one_client_writes_all_clients_read(cluster: Server, topic: str, library: Library, codec: Codec) -> None:
    offsets = library.produce(cluster.bootstrap_servers, topic, RECORDS, Sending(codec=codec))
    written = [Stored(offset, CREATE_TIME, record) for offset, record in enumerate(RECORDS)]
    assert offsets == list(range(len(RECORDS)))
    for reading in LIBRARIES:
        with reading.reader(cluster.bootstrap_servers, topic, "earliest") as reader:
            assert reader.read(len(RECORDS)) == written, f"read by {reading.name}"


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_log_append_time_replaces_what_the_client_said(
    cluster: Server, new_topic: Callable[..., str], library: Library, codec: Codec
) -> None:
    topic = new_topic(**{"message.timestamp.type": "LogAppendTime"})
    before_ms = time.time_ns() // 1_000_000
    library.produce(cluster.bootstrap_servers, topic, RECORDS, Sending(codec=codec))
    after_ms = time.time_ns() // 1_000_000
    with library.reader(cluster.bootstrap_servers, topic, "earliest") as reader:
        found = reader.read(len(RECORDS))
    assert [stored.timestamp_type for stored in found] == [LOG_APPEND_TIME] * len(RECORDS)
    assert all(before_ms <= (stored.record.timestamp_ms or 0) <= after_ms for stored in found), found


@pytest.mark.parametrize("acks", [0, 1, -1], ids=["none", "leader", "all"])
def test_records_arrive_in_order_with_every_level_of_acknowledgement(
    cluster: Server, topic: str, library: Library, acks: int
) -> None:
    records = [Record(f"{number}".encode()) for number in range(500)]
    offsets = library.produce(cluster.bootstrap_servers, topic, records, Sending(acks=acks))
    with library.reader(cluster.bootstrap_servers, topic, "earliest") as reader:
        found = reader.read(len(records))
    assert [(stored.offset, stored.record.value) for stored in found] == list(enumerate(r.value for r in records))
    assert offsets == (list(range(500)) if acks else [None] * 500)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_an_idempotent_producer_writes_many_batches_in_order(
    cluster: Server, topic: str, library: Library, codec: Codec
) -> None:
    records = [Record(f"{number}".encode()) for number in range(300)]
    offsets = library.produce(
        cluster.bootstrap_servers, topic, records, Sending(idempotent=True, codec=codec, in_batches_of=7)
    )
    with library.reader(cluster.bootstrap_servers, topic, "earliest") as reader:
        found = reader.read(len(records))
    assert offsets == list(range(300))
    assert [stored.record.value for stored in found] == [record.value for record in records]


def test_reading_starts_where_it_was_asked_to(cluster: Server, topic: str, library: Library) -> None:
    servers = cluster.bootstrap_servers
    library.produce(servers, topic, [Record(b"%d" % n, timestamp_ms=NOON_MS + 1000 * n) for n in range(10)])
    first = {"earliest": 0, 7: 7, Since(NOON_MS): 0, Since(NOON_MS + 2001): 3, Since(NOON_MS + 9000): 9}
    for start, offset in first.items():
        with library.reader(servers, topic, start) as reader:
            assert [stored.offset for stored in reader.read(10 - offset)] == list(range(offset, 10)), start


def test_reading_from_the_latest_offset_shows_only_what_comes_afterwards(
    cluster: Server, topic: str, library: Library
) -> None:
    servers = cluster.bootstrap_servers
    library.produce(servers, topic, [Record(b"before")])
    for start in ("latest", Since(2 * NOON_MS)):
        with library.reader(servers, topic, start) as reader:
            (offset,) = library.produce(servers, topic, [Record(b"after")])
            assert [(stored.offset, stored.record.value) for stored in reader.read(1)] == [(offset, b"after")]


def test_a_waiting_fetch_is_answered_when_a_record_arrives(cluster: Server, topic: str, library: Library) -> None:
    servers = cluster.bootstrap_servers
    with library.reader(servers, topic, "earliest", fetch_max_wait_ms=2 * PATIENCE_MS) as reader:
        # The first read leaves a fetch waiting at the broker, for longer than the second read has patience.
        assert reader.read(1, timeout_s=0.3) == []
        library.produce(servers, topic, [Record(b"at last")])
        assert [stored.record.value for stored in reader.read(1)] == [b"at last"]


def test_a_record_of_five_megabytes_passes_where_the_topic_allows_it(
    cluster: Server, new_topic: Callable[..., str], library: Library
) -> None:
    topic = new_topic(**{"max.message.bytes": "6000000"})
    records = [Record(b"small"), Record(bytes(range(250)) * 20_000, b"five million bytes"), Record(b"small again")]
    assert library.produce(cluster.bootstrap_servers, topic, records) == [0, 1, 2]
    with library.reader(cluster.bootstrap_servers, topic, "earliest") as reader:
        assert [stored.record.value for stored in reader.read(3)] == [record.value for record in records]


def test_a_record_of_five_megabytes_is_too_large_by_default(cluster: Server, topic: str, library: Library) -> None:
    with pytest.raises(TooLarge):
        library.produce(cluster.bootstrap_servers, topic, [Record(b"x" * 5_000_000)])
    assert library.produce(cluster.bootstrap_servers, topic, [Record(b"small")]) == [0]


def test_producing_to_an_unknown_topic_creates_it(cluster: Server, absent_topic: str, library: Library) -> None:
    assert library.produce(cluster.bootstrap_servers, absent_topic, [Record(b"first")]) == [0]
    with library.reader(cluster.bootstrap_servers, absent_topic, "earliest") as reader:
        assert [stored.record.value for stored in reader.read(1)] == [b"first"]
