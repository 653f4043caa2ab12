"""The steps of the demo: the driver of a Spark job is killed in the middle, and the job's totals are compared with its
input.

It runs a broker, a stream of orders, and a job that writes what every customer spent in every hour: first
``plain_totals.py``, then ``exact_totals.py``. The job's driver, a process of its own, is killed with ``kill -9`` before
it is done, and started again. At the end the totals that a read_committed consumer reads are compared with the orders;
with ``semel.spark`` the table in SQLite, which got the same batches, is compared with the totals as well. The exit code
is 0 only if they are equal for ``semel.spark``; the result of the plain sink is printed too.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from semel.blocking import Admin
from semel.demo.broker_process import serving
from semel.demo.driver import EXACTLY_ONCE, PLAIN, TABLE, Driver
from semel.demo.orders import CUSTOMERS, GROUP, Orders, Reader, sum_up
from semel.demo.plain_totals import TOPIC as PLAIN_TOPIC
from semel.errors import SemelError
from semel.spark.java import use_java

PARTITIONS = 2
ORDERS = 8_000
ROWS_PER_BATCH = 1_000

_KILL_AFTER = 0.4
_KILLS_MAX = 5
_SECONDS_MAX = 240.0
_PAUSE_S = 0.2
_SAY_EVERY_S = 1.0
_SAY_AT_LEAST_EVERY_S = 10.0


def run() -> bool:
    """Run the demo. Returns whether the totals of ``semel.spark`` are equal to the orders.

    Raises ``NoJava`` or ``SemelError``.
    """
    java = use_java()
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="semel-demo-", ignore_cleanup_errors=True) as folder,
        serving(Path(folder) / "broker") as servers,
    ):
        say(f"semel serve is ready on {servers}; Java: {java.executable}")
        is_right = demonstrate(Path(folder), servers)
    say(f"{time.monotonic() - started:.0f} s")
    return is_right


def demonstrate(folder: Path, servers: str) -> bool:
    with Admin(bootstrap_servers=servers) as admin:
        for topic in ("orders", PLAIN_TOPIC, "totals"):
            # The orders have timestamps of the past, by which retention would delete them at once.
            admin.topics.create(topic, partitions=PARTITIONS, configs={"retention.ms": "-1"})
    orders = Orders.drawn(ORDERS)
    say(f"{ORDERS:,} orders of {len(CUSTOMERS)} customers are on their way to the topic orders")
    orders.send_in_background(servers)
    say("a Spark job sums them up by customer and hour; its driver is killed in the middle and started again")
    title("1. a plain sink: foreachBatch and an ordinary producer, at-least-once as Spark's own Kafka sink")
    plain = with_plain_sink(folder / "plain", servers, orders)
    title("2. semel.spark: one Kafka transaction for each micro-batch, and a table beside it")
    exact = exactly_once(folder / "exactly-once", servers, orders)
    title("the account")
    say(f"plain sink:  {plain}")
    say(f"semel.spark: {exact}")
    if plain.is_right:
        say("the plain sink was lucky: no kill met a batch between its output and Spark's note that it is done")
    return exact.is_right


def with_plain_sink(folder: Path, servers: str, orders: Orders) -> Account:
    with Driver(PLAIN, folder, servers, ROWS_PER_BATCH) as driver, Reader(servers, PARTITIONS, PLAIN_TOPIC) as reader:
        driver.start()
        wait_for_totals(driver, reader, int(ORDERS * _KILL_AFTER))
        for _ in range(_KILLS_MAX):
            reader.wait_until_written(timeout_s=_SECONDS_MAX / 4)
            driver.kill()
            if driver.has_unfinished_batch():
                break
            driver.start()  # The batch was in Spark's commit log before the kill: try again with the next batch.
        say("kill -9 of the driver, right after a batch has written its totals and before Spark notes it as done")
        say("started again, with the same checkpoint: Spark runs the batch again")
        driver.start()
        wait_for_totals(driver, reader, len(orders) - 1, complete=True)
        return Account.of(orders, reader.totals())


def exactly_once(folder: Path, servers: str, orders: Orders) -> Account:
    with (
        Driver(EXACTLY_ONCE, folder, servers, ROWS_PER_BATCH) as driver,
        Reader(servers, PARTITIONS, "totals") as reader,
    ):
        driver.start()
        wait_for_consumed(driver, reader, int(ORDERS * _KILL_AFTER))
        was_open = reader.wait_until_open(timeout_s=_SECONDS_MAX / 4)
        driver.kill()
        say(f"kill -9 of the driver, {'in the middle of a transaction' if was_open else 'between two transactions'}")
        show_trace(servers)
        say(f"{len(reader.totals())} totals are committed; what the dead driver had not committed, no reader sees")
        say("started again, with the same checkpoint")
        driver.start()
        wait_for_consumed(driver, reader, len(orders))
        wait_for_totals(driver, reader, len(orders) - 1, complete=True)
        account = Account.of(orders, reader.totals())
        return replace(account, is_right=account.is_right and is_same_in_table(folder / TABLE, reader.totals()))


def is_same_in_table(file: Path, found: list[tuple[str, dict[str, int]]]) -> bool:
    """Whether the SQLite table has the same totals as the topic. It was written with commits of its own."""
    with sqlite3.connect(file) as database:
        rows = [(name, json.loads(total)) for name, total in database.execute("SELECT customer, total FROM totals")]
    is_same = sorted(map(repr, rows)) == sorted(map(repr, found))
    say(f"the table in SQLite that got the same batches has {len(rows)} totals: {'' if is_same else 'NOT '}the topic's")
    return is_same


def show_trace(servers: str) -> None:
    """Print what ``semel txn trace`` shows of the transaction that the dead driver has left open, and which readers
    wait for it."""
    command = [sys.executable, "-m", "semel", "txn", "trace", GROUP, "--bootstrap-server", servers]
    lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    shown = [number for number, line in enumerate(lines) if " open " in line or line.startswith("holds up")]
    heads = [number for number, line in enumerate(lines) if line.isupper() and number < min(shown, default=0)]
    say(f"$ semel txn trace {GROUP}")
    for line in [*lines[:2], "...", *(lines[number] for number in [*heads[-1:], *shown])]:
        print(f"      {line}", flush=True)


def wait_for_consumed(driver: Driver, reader: Reader, wanted: int) -> None:
    """Wait until so many orders are consumed, by the group's committed offsets. These are committed in the same
    transactions as the totals."""
    deadline, said_at, said = time.monotonic() + _SECONDS_MAX, 0.0, -1
    while (done := reader.consumed()) < wanted:
        if not driver.check():
            say("the driver ended by itself, and was started again")
        now = time.monotonic()
        if now > deadline:
            raise SemelError(f"only {done} of {wanted} orders after {_SECONDS_MAX:.0f} s: {driver.printed()}")
        if now - said_at >= (_SAY_EVERY_S if done != said else _SAY_AT_LEAST_EVERY_S):
            said_at, said = now, done
            say(f"{min(done, ORDERS):7,} of {ORDERS:,} orders are in committed transactions")
        time.sleep(_PAUSE_S)


def wait_for_totals(driver: Driver, reader: Reader, wanted: int, *, complete: bool = False) -> None:
    """Wait until the totals contain so many orders.

    Raises ``SemelError`` if that takes too long. With ``complete`` it returns instead: ``Account`` shows what is
    missing.
    """
    deadline, said = time.monotonic() + _SECONDS_MAX, -1
    while (found := _orders_in(reader.totals())) < wanted:
        if not driver.check():
            say("the driver ended by itself, and was started again")
        if time.monotonic() > deadline:
            if complete:
                return
            raise SemelError(f"only {found} of {wanted} orders after {_SECONDS_MAX:.0f} s: {driver.printed()}")
        if found != said and not complete:
            said = found
            say(f"{found:7,} of {ORDERS:,} orders are in totals")
        time.sleep(_PAUSE_S)


def _orders_in(totals: list[tuple[str, dict[str, int]]]) -> int:
    """Return how many orders the totals contain. A total that was written twice counts once."""
    return sum({(name, total["start"]): total["orders"] for name, total in totals}.values())


@dataclass(frozen=True, slots=True)
class Account:
    """The comparison of the orders with the totals: the number of totals, and how many were written twice."""

    totals: int
    twice: int
    is_right: bool

    def __str__(self) -> str:
        twice = f"{self.twice or 'none'} of {self.totals} totals twice"
        return f"{twice}; {'equal to the orders' if self.is_right else 'NOT EQUAL to the orders'}"

    @classmethod
    def of(cls, orders: Orders, found: list[tuple[str, dict[str, int]]]) -> Account:
        """Compare the orders with the totals that were found, and print the comparison as a table."""
        expected, read = orders.summed_up(), sum_up(found)
        print(f"\n  {'':10} {'orders':>10} {'in totals':>10}   {'spent':>14} {'in totals':>14}")
        for name in CUSTOMERS:
            cells = expected[0][name], read[0][name], expected[1][name], read[1][name]
            differs = "" if cells[0] == cells[1] and cells[2] == cells[3] else "   <- differs"
            print(f"  {name:10} {cells[0]:10,} {cells[1]:10,}   {cells[2]:14,} {cells[3]:14,}{differs}")
        hours = [(name, total["start"]) for name, total in found]
        twice = len(hours) - len(set(hours))
        return cls(len(set(hours)), twice, read == expected and not twice)


def title(sentence: str) -> None:
    print(f"\n{sentence}", flush=True)


def say(sentence: str) -> None:
    print(f"  {sentence}", flush=True)
