"""Apache Kafka's own DumpLogSegments reads every file that a broker leaves behind and finds it sound."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.clients.libraries import Record
from tests.clients.libraries.confluent import Confluent
from tests.clients.libraries.sending import CODECS, Sending
from tools.brokers import apache_kafka, semel
from tools.dump_log_segments import Finding, examine
from tools.load import create_topic
from tools.server import Server, running

pytestmark = [pytest.mark.kafka, pytest.mark.needs("kafka")]

SMALL_SEGMENTS = {"segment.bytes": str(1024 * 1024), "index.interval.bytes": "512"}


def fill(server: Server) -> None:
    """Several segments of every codec, several producers, and aborted transactions."""
    for codec in CODECS:
        create_topic(server.bootstrap_servers, f"codec-{codec}", partitions=1, config=SMALL_SEGMENTS)
        records = [Record(b"%d" % number * 400, b"key", (("h", b"v"),)) for number in range(1_500)]
        Confluent().produce(
            server.bootstrap_servers, f"codec-{codec}", records, Sending(codec=codec, idempotent=True, in_batches_of=20)
        )
    for number, end in enumerate((Producer.abort_transaction, Producer.commit_transaction) * 3):
        settings = {"bootstrap.servers": server.bootstrap_servers, "transactional.id": f"id-{number % 3}"}
        producer = Producer(settings)
        producer.init_transactions(20)
        producer.begin_transaction()
        for _ in range(500):
            producer.produce("codec-none", b"t" * 300, partition=0)
        producer.flush(20)
        end(producer)


@pytest.mark.parametrize("broker", [pytest.param(semel, id="semel"), pytest.param(apache_kafka, id="kafka")])
def test_every_file_of_a_stopped_broker_is_sound(broker: Callable[[Path], Server], tmp_path: Path) -> None:
    with running(broker(tmp_path)) as server:
        fill(server)
        server.stop()
    report = examine(server.data_dir)
    assert report.findings == ()
    assert min(report.files[suffix] for suffix in (".log", ".index", ".timeindex", ".snapshot")) >= len(CODECS)
    assert report.files[".txnindex"] > 0
    assert report.files[".log"] > len(CODECS), "no segment was ever rolled: the test did not write enough"


def test_every_file_of_a_killed_semel_is_sound_after_recovery(tmp_path: Path) -> None:
    with running(semel(tmp_path)) as server:
        fill(server)
        server.kill()
        server.start()
        server.stop()
    assert examine(server.data_dir).findings == ()


@pytest.fixture(scope="module")
def kafka_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with running(apache_kafka(tmp_path_factory.mktemp("kafka"))) as server:
        fill(server)
        server.stop()
    return server.data_dir


def flipped(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0x41
    path.write_bytes(content)


def cut(path: Path, by: int) -> None:
    path.write_bytes(path.read_bytes()[:-by])


DAMAGE: dict[str, tuple[str, Callable[[Path], None]]] = {
    "a bit of a batch": (".log", lambda path: flipped(path, 3000)),
    "the end of a log": (".log", lambda path: cut(path, 7)),
    "an offset in the index": (".index", lambda path: flipped(path, 3)),
    "a position in the index": (".index", lambda path: flipped(path, 6)),
    "the end of the index": (".index", lambda path: cut(path, 1)),
    "a time in the time index": (".timeindex", lambda path: flipped(path, 3)),
    "an offset in the time index": (".timeindex", lambda path: flipped(path, 11)),
    "the end of the time index": (".timeindex", lambda path: cut(path, 1)),
    "a byte of a snapshot": (".snapshot", lambda path: flipped(path, 11)),
    "the end of a snapshot": (".snapshot", lambda path: cut(path, 1)),
    "an aborted transaction": (".txnindex", lambda path: flipped(path, 9)),
    "the end of the transaction index": (".txnindex", lambda path: cut(path, 1)),
    "the whole transaction index": (".txnindex", Path.unlink),
}


@pytest.mark.parametrize("damaged", DAMAGE)
def test_damage_is_found(kafka_data: Path, tmp_path: Path, damaged: str) -> None:
    """The tool itself ends with code 0 whatever it sees, so it is our reading of it that is tested."""
    folder = tmp_path / "codec-none-0"
    shutil.copytree(kafka_data / "codec-none-0", folder)
    suffix, damage = DAMAGE[damaged]
    victim = next(path for path in sorted(folder.glob(f"*{suffix}")) if path.stat().st_size > 0)
    damage(victim)
    findings: tuple[Finding, ...] = examine(tmp_path).findings
    assert {finding.path.name for finding in findings} >= {victim.name}, findings
