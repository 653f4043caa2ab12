"""What a request costs the broker in instructions of the processor, beside other checkouts:
``python -m benchmarks.instructions [CHECKOUT ...]``.

valgrind counts them, so what else the machine does makes no difference: two counts of one row are equal within a
percent. A count says nothing about the kernel, the disk and the processor's caches; rates are what ``make bench``
measures. It does tell whether a change made the broker do more, where rates on a shared machine cannot.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.raw_load import connected
from benchmarks.topics import fresh_topic
from semel import blocking
from tools.brokers import semel
from tools.frames import fetch_request, now_ms, produce_request, receive_frame, record_batch
from tools.server import Server, running

_COUNTS: Final = 3
_NOW: Final = "now"
_TOTAL: Final = re.compile(r"^totals: (\d+)$", re.MULTILINE)
_VALGRIND: Final = ("valgrind", "--tool=callgrind", "--instr-atstart=no")

Load = Callable[[], None]


@dataclass(frozen=True, slots=True)
class _Row:
    title: str
    requests: int
    prepared: Callable[[Server, ExitStack], Load]
    """Makes what the row needs; the load is ``requests`` requests."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.instructions", description=(__doc__ or "").split(":")[0]
    )
    parser.add_argument("checkouts", nargs="*", type=Path, metavar="CHECKOUT", help="the root of an earlier version")
    checkouts: list[Path] = parser.parse_args().checkouts
    if shutil.which(_VALGRIND[0]) is None:
        parser.error("there is no valgrind on PATH (Debian's package valgrind)")
    for checkout in checkouts:
        if not (checkout / "src" / "semel").is_dir():
            parser.error(f"{checkout} is no checkout of this repository: it has no src/semel")
    versions = {_NOW: Path(__file__).parent.parent, **{checkout.resolve().name: checkout for checkout in checkouts}}
    counts = {version: dict(_counts(checkout)) for version, checkout in versions.items()}
    print(f"| instructions of the broker, thousands | {' | '.join(versions)} |")
    print(f"|---|{'--:|' * len(versions)}")
    for row in _ROWS:
        now = counts[_NOW][row.title]
        cells = [f"{now / 1000:,.0f}"]
        for version in list(versions)[1:]:
            before = counts[version][row.title]
            cells.append(f"{before / 1000:,.0f} ({now / before:.2f})")
        print(f"| {row.title} | {' | '.join(cells)} |")
    return 0


def _counts(checkout: Path) -> Iterator[tuple[str, float]]:
    """Each row's title and instructions per request."""
    with tempfile.TemporaryDirectory(prefix="semel-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        server = semel(folder, settings={"flush": "os"}, checkout=checkout)
        out = folder / "callgrind.out"
        command = [*_VALGRIND, f"--callgrind-out-file={out}", sys.executable, *server.launch.command]
        environment = {**server.launch.environment, "PYTHONHASHSEED": "0"}
        with running(Server(replace(server.launch, command=command, environment=environment))) as counted:
            for row in _ROWS:
                with ExitStack() as things:
                    load = row.prepared(counted, things)
                    load()  # What is imported, cached or made with the first requests is not theirs.
                    fewest = min(_counted(counted.pid, out, load) for _ in range(_COUNTS))
                print(
                    f"{checkout.resolve().name}: {row.title}: {fewest / row.requests:,.0f}", file=sys.stderr, flush=True
                )
                yield row.title, fewest / row.requests


def _counted(pid: int, out: Path, load: Load) -> int:
    _control("--instr=on", pid)
    _control("--zero", pid)
    load()
    _control("--dump", pid)
    _control("--instr=off", pid)
    dumps = sorted(out.parent.glob(f"{out.name}.*"))
    total = _TOTAL.search(dumps[-1].read_text())
    assert total is not None, f"{dumps[-1]} has no total"
    for dump in dumps:
        dump.unlink()
    return int(total[1])


def _control(option: str, pid: int) -> None:
    subprocess.run(["callgrind_control", option, str(pid)], check=True, capture_output=True)


def _produce(title: str, requests: int, records: list[bytes], *, connections: int = 1, pipelined: int = 1) -> _Row:
    """Each connection has a partition of its own, and so many requests under way."""

    def prepared(server: Server, things: ExitStack) -> Load:
        topic = things.enter_context(fresh_topic(server, connections))
        lines = [things.enter_context(connected(server)) for _ in range(connections)]
        batch = record_batch(records, now_ms())
        asked = [produce_request(topic, partition, batch) * pipelined for partition in range(connections)]

        def load() -> None:
            for _ in range(requests // connections // pipelined):
                for line, request in zip(lines, asked, strict=True):
                    line.sendall(request)
                for line in lines:
                    for _ in range(pipelined):
                        receive_frame(line)

        return load

    return _Row(title, requests, prepared)


def _fetch(title: str, requests: int, *, records: int, record_bytes: int) -> _Row:
    """Each answer has one batch of so many records."""

    def prepared(server: Server, things: ExitStack) -> Load:
        topic = things.enter_context(fresh_topic(server, 1))
        line = things.enter_context(connected(server))
        batch = record_batch([bytes(record_bytes)] * records, now_ms())
        for _ in range(2):
            line.sendall(produce_request(topic, 0, batch))
            receive_frame(line)
        request = fetch_request(topic, 0, 0, max_bytes=len(batch))

        def load() -> None:
            for _ in range(requests):
                line.sendall(request)
                receive_frame(line)

        return load

    return _Row(title, requests, prepared)


def _transactions(title: str, count: int) -> _Row:
    """One record each: a Produce that adds its partition, and EndTxn."""

    def prepared(server: Server, things: ExitStack) -> Load:
        topic = things.enter_context(fresh_topic(server, 1))
        producer = things.enter_context(
            blocking.Producer(bootstrap_servers=server.bootstrap_servers, transactional_id="instructions")
        )

        def load() -> None:
            for _ in range(count):
                with producer.transaction():
                    producer.send(topic, b"value")

        return load

    return _Row(title, count, prepared)


_ROWS: Final = (
    _produce("one record per request, 1 connection", 400, [bytes(100)]),
    _produce("one record per request, 16 connections", 800, [bytes(100)], connections=16),
    _produce("one record per request, 16 connections x 5", 800, [bytes(100)], connections=16, pipelined=5),
    _produce("produce 16 records of 1 KB", 200, [bytes(1000)] * 16),
    _produce("produce 150 records of 100 B", 200, [bytes(100)] * 150),
    _produce("produce 1,000 records of 1 KB", 20, [bytes(1000)] * 1000),
    _fetch("fetch 16 records of 1 KB", 200, records=16, record_bytes=1000),
    _fetch("fetch 1,000 records of 1 KB", 20, records=1000, record_bytes=1000),
    _transactions("a transaction of one record", 100),
)


if __name__ == "__main__":
    sys.exit(main())
