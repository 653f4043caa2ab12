"""Kills the driver, a worker, the broker or Postgres at every step of a batch with five sinks and a topic, then
compares the sinks with the input.

A zombie is a driver that waits at a step until its successor has committed more, and then continues. A worker whose
driver is killed continues, too. After the faults the topic and every sink must have every number once, and the group's
committed offset must be the end of the input.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from semel.blocking import Admin, Producer
from semel.spark.cluster import Cluster
from tools.load import create_topic
from tools.patience import SPARK_PATIENCE_S, wait_until
from tools.postgres import PostgresServer
from tools.server import Server
from tools.sink_job import (
    GROUP,
    ICEBERG_TABLE,
    OUTPUT,
    PARTITION,
    TABLE,
    TOPIC,
    TRANSACTIONAL_ID,
    SinkJob,
    iceberg_catalog,
    left_behind,
)
from tools.spark_job import Halt
from tools.spark_run import committed_rows

DRIVER, WORKER, BROKER, POSTGRES, ZOMBIE = "driver", "worker", "broker", "postgres", "zombie"

POINTS = (
    "planned",
    "begun",
    "sqlite staged",
    "sqlite committed",
    "files copying",
    "files copied",
    "files staged",
    "files committed",
    "delta copying",
    "delta copied",
    "delta staged",
    "delta committed",
    "iceberg copying",
    "iceberg copied",
    "iceberg staged",
    "iceberg committed",
    "postgres copying",
    "postgres copied",
    "postgres staged",
    "postgres merged",
    "postgres committed",
    "sinks written",
    "producing",
    "produced",
    "written",
    "offsets sent",
    "committed",
    "done",
)
"""The steps of a batch in order. Those of ``WORKER_POINTS`` are reached in a worker, the others in the driver."""

WORKER_POINTS = (
    *(point for point in POINTS if point.endswith((" copying", " copied"))),
    "producing",
    "produced",
)
# At these steps a zombie would hold a lock on a ledger line, for which its successor would wait.
_LOCKED = ("sqlite staged", "postgres merged")
_RECORDS = 20
# It has no common factor with the number of kinds of kills, so that all of them are chosen.
_STRIDE = 50
_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class Kill:
    victim: str
    point: str

    def __str__(self) -> str:
        return f"{self.victim} at {self.point!r}"


KILLS = (
    *(Kill(DRIVER, point) for point in POINTS),
    *(Kill(WORKER, point) for point in WORKER_POINTS),
    *(Kill(BROKER, point) for point in POINTS),
    *(Kill(POSTGRES, point) for point in POINTS),
    *(Kill(ZOMBIE, point) for point in POINTS if point not in (*_LOCKED, "done")),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    broker: str
    kills: tuple[str, ...]
    records: int
    problems: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "hits": dict(Counter(self.kills)), "passed": not self.problems}


def chosen_kills(number: int, count: int, *, order: int) -> list[Kill]:
    """Return the kills of run ``number``, shuffled by ``order``.

    Over all runs each kind is chosen in turn, so that a campaign reaches every point and a run has different victims.
    """
    kills = [KILLS[(number * count + index) * _STRIDE % len(KILLS)] for index in range(count)]
    random.Random(order).shuffle(kills)
    return kills


def kill_sinks(server: Server, postgres: PostgresServer, folder: Path, kills: list[Kill]) -> Outcome:
    for topic in (TOPIC, OUTPUT):
        create_topic(server.bootstrap_servers, topic, partitions=1)
    with sqlite3.connect(folder / "numbers.db") as connection:
        connection.execute(f"CREATE TABLE {TABLE} (number INTEGER)")
    with psycopg.connect(postgres.dsn) as database:
        database.execute(f"CREATE TABLE {TABLE} (number bigint)")
    (folder / "warehouse").mkdir()
    lake = load_catalog("default", **iceberg_catalog(folder))
    lake.create_namespace(ICEBERG_TABLE.partition(".")[0])
    lake.create_table(ICEBERG_TABLE, pa.schema([("number", pa.int64())]))
    SinkJob(server.bootstrap_servers, postgres.dsn).write(folder)
    run = _Run(server, postgres, folder)
    try:
        for number, kill in enumerate(kills):
            run.kill(number, kill)
        problems = run.finish()
    finally:
        run.end_drivers()
    return Outcome(server.name, tuple(map(str, kills)), run.sent, tuple(problems))


class _Run:
    def __init__(self, server: Server, postgres: PostgresServer, folder: Path) -> None:
        self.sent = 0
        self._server = server
        self._postgres = postgres
        self._folder = folder
        self._driver: subprocess.Popen[bytes] | None = None
        self._zombies: list[subprocess.Popen[bytes]] = []
        self._orphans: list[int] = []
        """The process ids of workers whose driver was killed while they ran a task."""

    def kill(self, number: int, kill: Kill) -> None:
        halt = Halt(number, kill.point, survives=False)
        halt.write(self._folder)
        self._feed()
        claim = halt.claim(self._folder)
        self._wait(claim.exists, f"{kill} was not reached")
        arrived = int(claim.read_text())
        assert self._driver is not None, "it waits at the point, or its worker does"
        assert (arrived == self._driver.pid) == (kill.point not in WORKER_POINTS), f"{kill}: another process is there"
        match kill.victim:
            case "driver":
                if kill.point in WORKER_POINTS:
                    self._orphans.append(arrived)
                self._end_driver()
            case "worker":
                os.kill(arrived, signal.SIGKILL)
            case "broker":
                if kill.point == "done" and self._server.name != "Semel":
                    self._wait_for_markers()
                self._server.kill()
                self._server.start()
            case "postgres":
                self._postgres.crash()
                self._postgres.start()
            case "zombie":
                left_behind(self._folder, self._driver.pid).touch()
                self._zombies.append(self._driver)
                self._driver = None
                self._feed()
                self._wait(self._is_consumed, "the successor of a zombie did not consume what there was")
        halt.leave(self._folder).touch()

    def _wait_for_markers(self) -> None:
        """Wait until the last transaction is complete.

        Apache Kafka 4.3 on one broker, killed between the answer to EndTxn and the markers, writes CompleteCommit after
        its restart without having written the markers, so the partitions stay open (``docs/guarantees.md``).
        """
        with Admin(bootstrap_servers=self._server.bootstrap_servers) as admin:
            wait_until(
                lambda: admin.transactions.describe(TRANSACTIONAL_ID).state == "CompleteCommit",
                "the transaction of a batch was not completed",
            )

    def finish(self) -> list[str]:
        (self._folder / "halt.json").unlink()
        self._feed()
        self._wait(self._is_consumed, "not all input was consumed after the last fault")
        for zombie in self._zombies:
            try:
                zombie.wait(SPARK_PATIENCE_S)
            except subprocess.TimeoutExpired:
                return [f"a zombie goes on: {self._printed()}"]
        wait_until(lambda: not any(map(_is_running, self._orphans)), "a worker without a driver goes on")
        self._end_driver()  # The next start drops everything that zombies and workers have staged.
        self._feed()
        self._wait(self._is_consumed, "not all input was consumed after the last zombie")
        return self._problems()

    def end_drivers(self) -> None:
        self._end_driver()
        for zombie in self._zombies:
            zombie.kill()
            zombie.wait()

    def _end_driver(self) -> None:
        if self._driver is not None:
            left_behind(self._folder, self._driver.pid).touch()
            self._driver.send_signal(signal.SIGKILL)
            self._driver.wait()
            self._driver = None

    def _wait(self, condition: Any, otherwise: str) -> None:
        """Wait until the condition holds. Start a driver if there is none, or if it has stopped by itself, as an
        operator would."""
        deadline = time.monotonic() + SPARK_PATIENCE_S
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"{otherwise} in {SPARK_PATIENCE_S:.0f} s: {self._printed()}")
            if self._driver is None or self._driver.poll() is not None:
                with (self._folder / "driver.txt").open("ab") as output:
                    command = [sys.executable, "-m", "tools.sink_job", str(self._folder)]
                    self._driver = subprocess.Popen(command, stdout=output, stderr=output)
            time.sleep(_PAUSE_S)

    def _feed(self) -> None:
        with Producer(bootstrap_servers=self._server.bootstrap_servers) as producer:
            for future in [producer.send(TOPIC, b"%d" % number) for number in range(_RECORDS)]:
                future.result()
        self.sent += _RECORDS

    def _is_consumed(self) -> bool:
        with Cluster(bootstrap_servers=self._server.bootstrap_servers) as cluster:
            found = cluster.committed(GROUP, [PARTITION], stable=False)
        return PARTITION in found and found[PARTITION].offset == self.sent

    def _problems(self) -> list[str]:
        with sqlite3.connect(self._folder / "numbers.db") as connection:
            in_sqlite = [row[0] for row in connection.execute(f"SELECT number FROM {TABLE}")]
        with psycopg.connect(self._postgres.dsn) as database:
            in_postgres = [row[0] for row in database.execute(f"SELECT number FROM {TABLE}").fetchall()]
            staged = database.execute("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'semel_staging%'").fetchone()
        parts = [pq.read_table(path, partitioning=None) for path in (self._folder / TABLE).glob("batch=*/*.parquet")]
        in_files = [number for part in parts for number in part.column("number").to_pylist()]
        in_delta = DeltaTable(str(self._folder / "delta")).to_pyarrow_table().column("number").to_pylist()
        lake = load_catalog("default", **iceberg_catalog(self._folder)).load_table(ICEBERG_TABLE)
        in_iceberg = lake.scan().to_arrow().column("number").to_pylist()
        wanted = Counter(range(self.sent))
        problems = []
        in_topic = [int(value) for _, value in committed_rows(self._server.bootstrap_servers, OUTPUT, 1)]
        everywhere = {
            "the topic": in_topic,
            "SQLite": in_sqlite,
            "files": in_files,
            "Delta": in_delta,
            "Iceberg": in_iceberg,
            "Postgres": in_postgres,
        }
        for name, numbers in everywhere.items():
            found = Counter(numbers)
            if found != wanted:
                missing, twice = sorted((wanted - found).elements()), sorted((found - wanted).elements())
                problems.append(f"{name}: missing {missing[:10]}, twice or foreign {twice[:10]}")
        if staged is not None and staged[0] > 0:
            problems.append(f"{staged[0]} staging tables are left")
        return problems

    def _printed(self) -> str:
        file = self._folder / "driver.txt"
        return file.read_text()[-2000:] if file.exists() else "nothing was printed"


def _is_running(pid: int) -> bool:
    """Whether the process runs. On Linux a process that has ended is listed until its new parent waits for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
