"""MirrorMaker 2 of Kafka 4.3, unmodified, between two brokers: Connect with exactly-once sources.

It runs Connect's distributed workers, whose own topics (configs, offsets, status) and transactions are on the target.
It is killed in the middle and started again; every record is in the mirror once, in order.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from semel import blocking
from tools.brokers import apache_kafka, semel
from tools.kafka_jars import KAFKA_4, MIRROR_MAKER, application_jars, jars_of, java
from tools.load import create_topic
from tools.patience import wait_until
from tools.server import Server, running

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.needs("kafka", MIRROR_MAKER),
    pytest.mark.xdist_group("mirror-maker"),
]

RECORDS = 3000

# The largest part of its settings lets it begin in seconds instead of minutes.
SETTINGS = """
clusters = from, to
from.bootstrap.servers = {source}
to.bootstrap.servers = {target}
from->to.enabled = true
from->to.topics = orders
to->from.enabled = false
to.exactly.once.source.support = enabled
from->to.producer.override.batch.size = 200
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
offset.storage.partitions = 1
status.storage.partitions = 1
scheduled.rebalance.max.delay.ms = 0
to.session.timeout.ms = 6000
to.heartbeat.interval.ms = 1000
emit.heartbeats.enabled = false
emit.checkpoints.enabled = false
sync.topic.acls.enabled = false
dedicated.mode.enable.internal.rest = false
"""


@pytest.fixture(params=["semel to semel", "kafka to semel", "semel to kafka"])
def brokers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    makers: dict[str, Callable[[Path], Server]] = {"semel": semel, "kafka": apache_kafka}
    source, _, target = request.param.partition(" to ")
    with ExitStack() as stack:
        started = [stack.enter_context(running(makers[name](tmp_path / f"{name}-{side}")))
                   for name, side in ((source, "from"), (target, "to"))]  # fmt: skip
        yield started[0], started[1]


def mirror_maker(properties: Path, output: Path) -> subprocess.Popen[bytes]:
    libraries = f"{jars_of(KAFKA_4)}/*:{application_jars(MIRROR_MAKER)}/*"
    options = ["-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", libraries]
    command = [java(), *options, "org.apache.kafka.connect.mirror.MirrorMaker", str(properties)]
    with output.open("ab") as printed:
        return subprocess.Popen(command, stdout=printed, stderr=subprocess.STDOUT)


def send(server: Server, numbers: range) -> None:
    with blocking.Producer(bootstrap_servers=server.bootstrap_servers) as producer:
        for number in numbers:
            producer.send("orders", str(number).encode())


def test_every_record_is_mirrored_once_though_the_mirror_is_killed(
    brokers: tuple[Server, Server], tmp_path: Path
) -> None:
    source, target = brokers
    create_topic(source.bootstrap_servers, "orders", partitions=1)
    create_topic(target.bootstrap_servers, "from.orders", partitions=1)
    properties, output = tmp_path / "mm2.properties", tmp_path / "mm2.txt"
    properties.write_text(SETTINGS.format(source=source.bootstrap_servers, target=target.bootstrap_servers))
    consumer = blocking.Consumer(
        bootstrap_servers=target.bootstrap_servers, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    mirrored: list[int] = []

    def arrived() -> int:
        mirrored.extend(int(record.value or b"-1") for record in consumer.poll(500))
        return len(mirrored)

    def told() -> str:
        return f"{len(mirrored)} records in the mirror; {output.read_text(errors='replace')[-3000:]}"

    send(source, range(RECORDS))
    mirror = mirror_maker(properties, output)
    try:
        with consumer:
            consumer.assign([("from.orders", 0)])
            wait_until(lambda: arrived() > 0, told)
            send(source, range(RECORDS, 2 * RECORDS))
            mirror.kill()
            mirror.wait()
            send(source, range(2 * RECORDS, 3 * RECORDS))
            mirror = mirror_maker(properties, output)
            wait_until(lambda: arrived() >= 3 * RECORDS, told)
            arrived()
    finally:
        mirror.kill()
        mirror.wait()
    assert mirrored == list(range(3 * RECORDS))
