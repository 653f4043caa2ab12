"""``make demo-broker``: a broker under load is killed and restarted, and then all its records are checked."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tools.brokers import semel
from tools.history import anomalies
from tools.load import Load, create_topic, read_back
from tools.server import Server

_TOPIC = "payments"
_PARTITIONS = 4


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="semel-demo-") as folder:
        server = semel(Path(folder))
        try:
            return demonstrate(server)
        finally:
            server.kill()


def demonstrate(server: Server) -> int:
    say(f"semel serve is ready after {server.start():.2f} s, with {server.resident_bytes() / 1e6:.0f} MB of memory")
    create_topic(server.bootstrap_servers, _TOPIC, partitions=_PARTITIONS)
    load = Load(server.bootstrap_servers, _TOPIC, partitions=_PARTITIONS, producers=2, seed=0)
    load.start()
    say(f"two idempotent producers (librdkafka) send to {_TOPIC}, {_PARTITIONS} partitions, acks=all")
    for _ in range(3):
        load.wait_for_acknowledged(load.acknowledged() + 5_000)
        server.kill()
        say(f"kill -9 while they send: {load.acknowledged():,} records are acknowledged so far")
        say(f"started again on the same files: serving after {server.start():.2f} s")
    load.wait_for_acknowledged(load.acknowledged() + 5_000)
    load.finish(timeout_s=30)
    history = load.history
    say(f"the producers are done: {len(history.sent):,} sent, {len(history.acknowledged):,} acknowledged")
    found = read_back(server.bootstrap_servers, _TOPIC, partitions=_PARTITIONS)
    say(f"a consumer read {len(found):,} records back")
    wrong = anomalies(history, found)
    for anomaly in wrong[:10]:
        say(f"  {anomaly}")
    say("verdict: every acknowledged record is there once, in order" if not wrong else "verdict: NOT exactly once")
    return 1 if wrong else 0


def say(sentence: str) -> None:
    print(f"  {sentence}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
