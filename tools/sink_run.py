"""Kill the driver, the broker or Postgres at every step of a batch with five sinks, then compare them with the input.

A zombie is a driver that waits at a step until its successor has committed more, and then goes on. When the faults are
over every sink must have every number once, and the group must be where the input ends.
"""

from __future__ import annotations

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

from semel.blocking import Producer
from semel.spark.cluster import Cluster
from tools.load import create_topic
from tools.patience import PATIENCE_S
from tools.postgres import PostgresServer
from tools.server import Server
from tools.sink_job import GROUP, ICEBERG_TABLE, PARTITION, TABLE, TOPIC, SinkJob, iceberg_catalog
from tools.spark_job import Halt

DRIVER, BROKER, POSTGRES, ZOMBIE = "driver", "broker", "postgres", "zombie"

POINTS = (
    "planned",
    "begun",
    "sqlite staged",
    "sqlite committed",
    "files staged",
    "files committed",
    "delta staged",
    "delta committed",
    "iceberg staged",
    "iceberg committed",
    "postgres staged",
    "postgres merged",
    "postgres committed",
    "sinks written",
    "written",
    "offsets sent",
    "committed",
    "done",
)
# At these the zombie holds the lock on a line, and its successor waits for it.
_LOCKED = ("sqlite staged", "postgres merged")
_RECORDS = 20
_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class Kill:
    victim: str
    point: str

    def __str__(self) -> str:
        return f"{self.victim} at {self.point!r}"


KILLS = (
    *(Kill(DRIVER, point) for point in POINTS),
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
    """Each kind in turn, from run to run, so that a campaign reaches every point; shuffled by ``order``."""
    kills = [KILLS[(number * count + index) % len(KILLS)] for index in range(count)]
    random.Random(order).shuffle(kills)
    return kills


def kill_sinks(server: Server, postgres: PostgresServer, folder: Path, kills: list[Kill]) -> Outcome:
    create_topic(server.bootstrap_servers, TOPIC, partitions=1)
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

    def kill(self, number: int, kill: Kill) -> None:
        halt = Halt(number, kill.point, survives=False)
        halt.write(self._folder)
        self._feed()
        claim = halt.claim(self._folder)
        self._wait(claim.exists, f"{kill} was not reached")
        match kill.victim:
            case "driver":
                self._end_driver()
            case "broker":
                self._server.kill()
                self._server.start()
            case "postgres":
                self._postgres.crash()
                self._postgres.start()
            case "zombie":
                assert self._driver is not None, "it waits at the point"
                self._zombies.append(self._driver)
                self._driver = None
                self._feed()
                self._wait(self._is_consumed, "the successor of a zombie did not consume what there was")
        halt.leave(self._folder).touch()

    def finish(self) -> list[str]:
        (self._folder / "halt.json").unlink()
        self._feed()
        self._wait(self._is_consumed, "not all input was consumed after the last fault")
        for zombie in self._zombies:
            try:
                zombie.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                return [f"a zombie goes on: {self._printed()}"]
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
            self._driver.send_signal(signal.SIGKILL)
            self._driver.wait()
            self._driver = None

    def _wait(self, condition: Any, otherwise: str) -> None:
        """A driver that has stopped by itself is started again, as an operator would."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"{otherwise} in {PATIENCE_S:.0f} s: {self._printed()}")
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
        everywhere = {
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
        if staged is not None and staged[0] > len(self._zombies):
            problems.append(f"{staged[0]} staging tables are left")
        return problems

    def _printed(self) -> str:
        file = self._folder / "driver.txt"
        return file.read_text()[-2000:] if file.exists() else "nothing was printed"
