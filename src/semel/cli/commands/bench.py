"""``semel bench``: measures throughput and latency of a broker with Semel's own client."""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING, Any

from semel.cli.exits import Exit, UsageError
from semel.cli.option_values import client_settings
from semel.cli.parsing import Subcommands, add_command, add_connection_and_json
from semel.cli.terminal.output import print_rows
from semel.cli.terminal.progress import Progress

if TYPE_CHECKING:
    from concurrent.futures import Future

    from semel.blocking import Producer

_AT_ONCE = 5_000


def add_parser(commands: Subcommands) -> None:
    parser = add_command(
        commands,
        "bench",
        "measure a broker with this client",
        "  semel bench\n"
        "  semel bench --records 1000000 --size 1000 --partitions 8\n"
        "  semel bench --transaction 100 --json\n\n"
        "It makes a topic, writes, reads it back, and deletes it. What limits the figures may be this\n"
        "client: `make bench` in Semel's repository compares brokers with a faster one.",
        _run,
    )
    parser.add_argument("--records", type=int, default=200_000, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--size", type=int, default=100, metavar="BYTES", help="of a value (default: %(default)s)")
    parser.add_argument("--partitions", type=int, default=4, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--transaction", type=int, metavar="N", help="commit every N records")
    add_connection_and_json(parser)


def _run(options: argparse.Namespace) -> int:
    from semel.blocking import Admin

    for name in ("records", "size", "partitions"):
        if getattr(options, name) < 1:
            raise UsageError(f"--{name} {getattr(options, name)}: it is at least 1")
    settings, topic = client_settings(options), f"semel-bench-{os.getpid()}"
    with Admin(**settings) as admin:
        admin.topics.create(topic, partitions=options.partitions)
        try:
            rows = [_write(options, settings, topic), _read(options, settings, topic)]
        finally:
            admin.topics.delete(topic)
    columns = ("what", "records_per_second", "mb_per_second", "p50_ms", "p99_ms")
    print_rows(rows, columns, as_json=options.json)
    return Exit.OK


def _write(options: argparse.Namespace, settings: dict[str, Any], topic: str) -> dict[str, Any]:
    from semel.blocking import Producer

    own = dict(settings)
    if options.transaction is not None:
        own["transactional_id"] = topic
    waited: list[float] = []
    with Producer(**own) as producer, Progress("written", options.records) as progress:
        started = time.perf_counter()
        for first in range(0, options.records, options.transaction or _AT_ONCE):
            count = min(options.transaction or _AT_ONCE, options.records - first)
            began = time.perf_counter()
            if options.transaction is None:
                _send(producer, topic, options, count)
            else:
                with producer.transaction():
                    _send(producer, topic, options, count)
            waited.append((time.perf_counter() - began) * 1000)
            progress.advance(count)
        elapsed_s = time.perf_counter() - started
    waited.sort()
    what = "write" if options.transaction is None else f"write, {options.transaction} per transaction"
    return {
        **_rates(what, options, elapsed_s),
        "p50_ms": round(waited[len(waited) // 2], 2),
        "p99_ms": round(waited[min(len(waited) - 1, len(waited) * 99 // 100)], 2),
    }


def _send(producer: Producer, topic: str, options: argparse.Namespace, count: int) -> None:
    value = bytes(options.size)
    sent: list[Future[Any]] = [
        producer.send(topic, value, partition=number % options.partitions) for number in range(count)
    ]
    for future in sent:
        future.result()


def _read(options: argparse.Namespace, settings: dict[str, Any], topic: str) -> dict[str, Any]:
    from semel.blocking import Consumer

    with (
        Consumer(**settings, auto_offset_reset="earliest", isolation_level="read_committed") as consumer,
        Progress("read", options.records) as progress,
    ):
        consumer.assign([(topic, index) for index in range(options.partitions)])
        read, started = 0, time.perf_counter()
        while read < options.records:
            count = len(consumer.poll(1000, max_records=_AT_ONCE))
            read += count
            progress.advance(count)
        return _rates("read", options, time.perf_counter() - started)


def _rates(what: str, options: argparse.Namespace, elapsed_s: float) -> dict[str, Any]:
    return {
        "what": what,
        "records_per_second": round(options.records / elapsed_s),
        "mb_per_second": round(options.records * options.size / elapsed_s / 1e6, 1),
    }
