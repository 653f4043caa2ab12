"""Data directories with everything in them, for the tools that look at files: a stopped broker's and a killed one's."""

from __future__ import annotations

from pathlib import Path

from semel import blocking
from semel.testing import Broker
from tools.patience import BEYOND_PATIENCE_MS

TOPIC = "orders"


class _TakenBack(Exception):
    """Aborts the transaction in which it is raised."""


def make_directory(folder: Path, *, kill: bool = False) -> None:
    """Three segments of committed and aborted transactions, with their indexes and snapshots.

    With ``kill`` there is less of it: one segment, all of it in the journal and nothing behind a checkpoint,
    however long it takes.
    """
    with Broker(folder, log_flush_offset_checkpoint_interval_ms=BEYOND_PATIENCE_MS) as broker:
        fill(broker, value_bytes=100 if kill else 20_000)
        broker.stop(kill=kill)


def fill(broker: Broker, *, value_bytes: int = 20_000) -> None:
    servers = broker.bootstrap_servers
    with blocking.Admin(bootstrap_servers=servers) as admin:
        admin.topics.create(TOPIC, partitions=1, configs={"segment.bytes": "1048576", "index.interval.bytes": "100"})
    with blocking.Producer(bootstrap_servers=servers, transactional_id="till") as producer:
        for number in range(24):
            try:
                with producer.transaction():
                    for key in range(5):
                        producer.send(TOPIC, bytes([65 + number]) * value_bytes, key=b"%d" % key).result()
                    if number % 3 == 0:
                        raise _TakenBack
            except _TakenBack:
                pass
