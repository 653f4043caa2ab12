"""What our client writes all others read, and the other way round: every codec, record by record and in bulk."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

import semel
from semel import blocking
from tests.clients.conftest import LIBRARIES
from tests.clients.libraries import CREATE_TIME, LOG_APPEND_TIME, Library, Record, Stored
from tests.clients.libraries.sending import CODECS, Codec, Sending
from tests.clients.test_records import NOON_MS, RECORDS
from tools.brokers import run_java
from tools.patience import PATIENCE_MS, PATIENCE_S
from tools.server import Server

Write = Callable[[str, str, Codec, Sequence[Record]], None]
Read = Callable[[str, str, int], list[Stored]]


def send(servers: str, topic: str, codec: Codec, records: Sequence[Record]) -> None:
    with blocking.Producer(bootstrap_servers=servers, compression_type=codec) as producer:
        for record in records:
            producer.send(
                topic,
                record.value,
                record.key,
                partition=0,
                headers=record.headers,
                timestamp=record.timestamp_ms,
            )


def send_many(servers: str, topic: str, codec: Codec, records: Sequence[Record]) -> None:
    with blocking.Producer(bootstrap_servers=servers, compression_type=codec) as producer:
        written = producer.send_many(
            topic,
            [record.value for record in records],
            [record.key for record in records],
            partition=0,
            headers=[record.headers for record in records],
            timestamps=[record.timestamp_ms for record in records],
        ).result(PATIENCE_S)
    assert written.partitions[0].record_count == len(records)


def send_arrow(servers: str, topic: str, codec: Codec, records: Sequence[Record]) -> None:
    table = pa.table(
        {
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
            "timestamp": pa.array([record.timestamp_ms for record in records], pa.int64()),
            "headers": pa.array([record.headers for record in records], pa.map_(pa.string(), pa.binary())),
            "partition": pa.array([0] * len(records), pa.int32()),
        }
    )

    async def scenario() -> None:
        async with semel.Producer(bootstrap_servers=servers, compression_type=codec) as producer:
            await producer.send_arrow(topic, table)

    asyncio.run(scenario())


def poll(servers: str, topic: str, count: int) -> list[Stored]:
    """Our records do not say whose timestamp theirs is; here it is their producer's."""
    found: list[Stored] = []
    with blocking.Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        while len(found) < count:
            found += [
                Stored(one.offset, CREATE_TIME, Record(one.value, one.key, one.headers, one.timestamp))
                for one in consumer.poll(PATIENCE_MS)
            ]
    return found


def poll_arrow(servers: str, topic: str, count: int) -> list[Stored]:
    found: list[Stored] = []
    with blocking.Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        while len(found) < count:
            found += [
                Stored(
                    row["offset"],
                    (CREATE_TIME, LOG_APPEND_TIME)[row["timestamp_type"]],
                    Record(
                        row["value"],
                        row["key"],
                        tuple((header["key"], header["value"]) for header in row["headers"]),
                        round(row["timestamp"].timestamp() * 1000),
                    ),
                )
                for row in consumer.poll_arrow(10_000).to_pylist()
            ]
    return found


WRITERS: tuple[Write, ...] = (send, send_many, send_arrow)
READERS: tuple[Read, ...] = (poll, poll_arrow)


def expected(records: Sequence[Record] = RECORDS) -> list[Stored]:
    return [Stored(offset, CREATE_TIME, record) for offset, record in enumerate(records)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_what_we_write_everybody_reads(cluster: Server, topic: str, write: Write, codec: Codec) -> None:
    servers = cluster.bootstrap_servers
    write(servers, topic, codec, RECORDS)
    for read in READERS:
        assert read(servers, topic, len(RECORDS)) == expected(), f"read by our {read.__name__}"
    for library in LIBRARIES:
        with library.reader(servers, topic, "earliest") as reader:
            assert reader.read(len(RECORDS)) == expected(), f"read by {library.name}"


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_what_others_write_we_read(cluster: Server, topic: str, library: Library, read: Read, codec: Codec) -> None:
    library.produce(cluster.bootstrap_servers, topic, RECORDS, Sending(codec=codec))
    assert read(cluster.bootstrap_servers, topic, len(RECORDS)) == expected()


def test_rows_know_that_the_broker_has_dated_them(cluster: Server, new_topic: Callable[..., str]) -> None:
    topic = new_topic(**{"message.timestamp.type": "LogAppendTime"})
    send_many(cluster.bootstrap_servers, topic, "none", RECORDS)
    found = poll_arrow(cluster.bootstrap_servers, topic, len(RECORDS))
    assert {stored.timestamp_type for stored in found} == {LOG_APPEND_TIME}
    assert min(stored.record.timestamp_ms or 0 for stored in found) > NOON_MS + 10**9


TEXTS = [Record(f"value {number}".encode(), b"key", (("h", b"x"),), NOON_MS + number) for number in range(300)]


def kcat(servers: str, *arguments: str, stdin: str = "") -> str:
    command = ["kcat", "-b", servers, "-X", "fetch.wait.max.ms=20", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stderr}"
    return done.stdout


@pytest.mark.needs("kcat")
@pytest.mark.parametrize("codec", CODECS)
def test_kcat_and_we_read_each_other(cluster: Server, new_topic: Callable[..., str], codec: Codec) -> None:
    servers = cluster.bootstrap_servers
    for write in WRITERS:
        topic = new_topic()
        write(servers, topic, codec, TEXTS)
        lines = kcat(servers, "-C", "-t", topic, "-e", "-q", "-J", "-o", "beginning").splitlines()
        assert [
            (found["key"], found["payload"], found["ts"], found["headers"]) for found in map(json.loads, lines)
        ] == [("key", f"value {number}", NOON_MS + number, ["h", "x"]) for number in range(300)], write.__name__
    topic = new_topic()
    kcat(servers, "-P", "-t", topic, "-z", codec, stdin="".join(f"value {number}\n" for number in range(300)))
    for read in READERS:
        assert [stored.record.value for stored in read(servers, topic, 300)] == [record.value for record in TEXTS]


@pytest.mark.kafka
@pytest.mark.needs("kafka")
def test_the_java_client_and_we_read_each_other(cluster: Server, new_topic: Callable[..., str]) -> None:
    """One run of the console consumer reads what every way of ours and every codec has written, one after the other."""
    # What is so old would be deleted by a broker that has run for half a minute.
    servers, topic = cluster.bootstrap_servers, new_topic(**{"retention.ms": "-1"})
    for codec in CODECS:
        for write in WRITERS:
            write(servers, topic, codec, TEXTS)
    arguments = ["--bootstrap-server", servers, "--topic", topic, "--partition", "0", "--offset", "earliest"]
    arguments += ["--max-messages", str(300 * len(CODECS) * len(WRITERS)), "--timeout-ms", "20000"]
    for shown in ("print.key", "print.headers", "print.timestamp"):
        arguments += ["--formatter-property", f"{shown}=true"]
    lines = run_java("org.apache.kafka.tools.consumer.ConsoleConsumer", arguments).splitlines()
    read = [line for line in lines if line.startswith("CreateTime:")]
    assert read == [f"CreateTime:{NOON_MS + n}\th:x\tkey\tvalue {n}" for n in range(300)] * len(CODECS) * len(WRITERS)
    for codec in CODECS:
        theirs = new_topic()
        arguments = ["--topic", theirs, "--num-records", "300", "--payload-monotonic", "--throughput", "-1"]
        arguments += ["--producer-props", f"bootstrap.servers={servers}", f"compression.type={codec}"]
        run_java("org.apache.kafka.tools.ProducerPerformance", arguments)
        for reading in READERS:
            values = [stored.record.value for stored in reading(servers, theirs, 300)]
            assert values == [str(number).encode() for number in range(300)], codec
