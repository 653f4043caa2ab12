"""``make demo``: a stateful Spark job whose driver is killed in the middle of a transaction, and which loses nothing.

A broker, a stream of orders, and ``examples/spark_totals.py``, which writes what every customer spent in every hour.
Its driver, a process of its own, gets ``kill -9`` half way and is started again. At the end, what a read_committed
reader finds in the totals stands beside what was ordered. Only if they are equal is the exit code 0.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from semel.cli.progress import Progress
from semel.spark.java import NoJava, use_java
from tools.brokers import semel
from tools.demo_driver import Driver
from tools.demo_orders import CUSTOMERS, Orders, Reader, sum_up
from tools.load import create_topic
from tools.server import running

PARTITIONS = 2
ORDERS = 12_000
ROWS_PER_BATCH = 1_000

_KILL_AFTER = 0.4
_SECONDS_MAX = 240.0
_PAUSE_S = 0.2
_SAY_EVERY_S = 1.0
_SAY_AT_LEAST_EVERY_S = 10.0


def main() -> int:
    try:
        java = use_java()
    except NoJava as reason:
        print(f"semel: {reason}", file=sys.stderr)
        return 1
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="semel-demo-", ignore_cleanup_errors=True) as folder,
        running(semel(Path(folder) / "broker")) as server,
    ):
        say(f"semel serve is ready, with {server.resident_bytes() / 1e6:.0f} MB of memory; Java: {java.executable}")
        passed = demonstrate(Path(folder), server.bootstrap_servers)
    say(f"{time.monotonic() - started:.0f} s")
    return 0 if passed else 1


def demonstrate(folder: Path, servers: str) -> bool:
    for topic in ("orders", "totals"):
        # The orders' time is their own: by it, they would all be too old to be kept.
        create_topic(servers, topic, partitions=PARTITIONS, config={"retention.ms": "-1"})
    orders = Orders.drawn(ORDERS)
    with Driver(folder, servers, ROWS_PER_BATCH) as driver, Reader(servers, PARTITIONS) as reader:
        say(f"{ORDERS:,} orders of {len(CUSTOMERS)} customers are on their way to the topic orders")
        orders.send_in_background(servers)
        say("a Spark job sums them up by customer and hour: one Kafka transaction for each micro-batch")
        driver.start()
        wait_for_consumed(driver, reader, int(ORDERS * _KILL_AFTER))
        was_open = reader.wait_until_open(timeout_s=5.0)
        driver.kill()
        say(f"kill -9 of the driver, {'in the middle of a transaction' if was_open else 'between two transactions'}")
        say(f"{len(reader.totals())} totals are committed; what the dead driver had not committed, nobody sees")
        say("started again, with the same checkpoint")
        driver.start()
        wait_for_consumed(driver, reader, len(orders))
        wait_for_totals(driver, reader, len(orders) - 1)
        found = reader.totals()
    return verdict(orders, found)


def wait_for_consumed(driver: Driver, reader: Reader, wanted: int) -> None:
    """As told by the group's offsets, which are committed in the same transactions as the totals."""
    deadline, said_at, said, done = time.monotonic() + _SECONDS_MAX, 0.0, -1, 0
    with Progress("orders in committed transactions", wanted, stream=sys.stdout) as progress:
        while done < wanted:
            if not driver.check():
                say("the driver ended by itself, and was started again")
            now = time.monotonic()
            if now > deadline:
                raise SystemExit(f"only {done} of {wanted} orders after {_SECONDS_MAX:.0f} s: {driver.printed()}")
            before, done = done, reader.consumed()
            progress.advance(done - before)
            if not sys.stdout.isatty() and now - said_at >= (_SAY_EVERY_S if done != said else _SAY_AT_LEAST_EVERY_S):
                said_at, said = now, done
                say(f"{min(done, ORDERS):7,} of {ORDERS:,} orders are in committed transactions")
            time.sleep(_PAUSE_S)


def wait_for_totals(driver: Driver, reader: Reader, orders: int) -> None:
    """The last hours close in a batch of their own. Those that never come are the verdict's business."""
    deadline = time.monotonic() + _SECONDS_MAX / 4
    while sum_up(reader.totals())[0].total() < orders and time.monotonic() < deadline:
        driver.check()
        time.sleep(_PAUSE_S)


def verdict(orders: Orders, found: list[tuple[str, dict[str, int]]]) -> bool:
    expected, read = orders.summed_up(), sum_up(found)
    print(f"\n  {'':10} {'orders':>10} {'in totals':>10}   {'spent':>14} {'in totals':>14}")
    for name in CUSTOMERS:
        cells = expected[0][name], read[0][name], expected[1][name], read[1][name]
        differs = "" if cells[0] == cells[1] and cells[2] == cells[3] else "   <- differs"
        print(f"  {name:10} {cells[0]:10,} {cells[1]:10,}   {cells[2]:14,} {cells[3]:14,}{differs}")
    hours = [(name, total["start"]) for name, total in found]
    twice = len(hours) - len(set(hours))
    passed = read == expected and not twice
    print()
    say(f"{len(hours)} totals of an hour, {twice or 'none'} of them twice")
    say("equal: nothing was lost, and nothing was counted twice" if passed else "NOT EQUAL")
    return passed


def say(sentence: str) -> None:
    print(f"  {sentence}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
