"""Kills a pipeline's driver, tasks and broker at named points, then compares its output with the expected output.

Every kill is one halt: the process that reaches the point waits there, and is killed, or its broker is killed, or it is
left behind as a zombie that continues when its successor runs. Two faults kill no process: the response to EndTxn is
lost after the broker has acted on the request; or the epochs of the producer id are used up while no driver runs, so
that the next driver gets another producer id while it works. A rival is a second pipeline with the same group, and with
a transactional id and a checkpoint of its own: it starts while the first one is in the middle of a batch, and the first
one must stop by itself. In other faults the committed offsets expire between two batches, or the broker is down for
longer than a client waits. After the faults the pipeline must consume all input, and the output must be the function of
the input: nothing missing, nothing twice.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from semel.blocking import Admin, Producer
from semel.client.config.consumer import IsolationLevel
from semel.spark.claim import fence_of
from semel.spark.cluster import Cluster
from semel.spark.sink.sink import POINTS, TASK_POINTS
from semel.spark.source.reading import read_split
from semel.spark.source.splits import Split
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from tests.clients.proxy import Proxy, Verdict
from tools.load import create_topic
from tools.patience import SPARK_PATIENCE_S
from tools.server import Server
from tools.spark_epochs import use_up_epochs
from tools.spark_job import GROUP, RIVAL_ID, SINK, SOURCE, TRANSACTIONAL_ID, Halt, Job

_PARTITIONS = 3
_KEYS = 5
_RECORDS = 30
_PAUSE_S = 0.05
# Longer than the timeouts of a client.
_OUTAGE_S = 70.0
_EXPIRED_S = 8 * 24 * 3600.0

DRIVER, TASK, BROKER, ZOMBIE, CHECKPOINT = "driver", "task", "broker", "zombie", "checkpoint"
ANSWER, EPOCHS, RIVAL = "answer to EndTxn", "epochs", "rival"
OFFSETS, OUTAGE = "offsets", "broker for long"


@dataclass(frozen=True, slots=True)
class Kill:
    victim: str
    point: str

    def __str__(self) -> str:
        return f"{self.victim} at {self.point!r}"


# All kinds of kills at all points at which they are possible. A task does not reach the points of the driver.
KILLS = (
    *(Kill(DRIVER, point) for point in POINTS),
    *(Kill(BROKER, point) for point in POINTS),
    *(Kill(TASK, point) for point in TASK_POINTS),
    Kill(ZOMBIE, "producing"),
    Kill(CHECKPOINT, "produced"),
    Kill(CHECKPOINT, "done"),
    Kill(ANSWER, "offsets sent"),
    Kill(EPOCHS, "done"),
    Kill(RIVAL, "written"),
    Kill(RIVAL, "offsets sent"),
    Kill(OFFSETS, "done"),
    Kill(OUTAGE, "producing"),
    Kill(OUTAGE, "offsets sent"),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    broker: str
    is_stateful: bool
    kills: tuple[str, ...]
    records: int
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.problems

    @property
    def hits(self) -> Counter[str]:
        """How often each victim was struck at each point. If a point is not reached, the run has failed already."""
        return Counter(self.kills)

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "hits": dict(self.hits), "passed": self.passed}


def chosen_kills(number: int, count: int, *, order: int, is_stateful: bool) -> list[Kill]:
    """Return the kills of run ``number``, shuffled by ``order``.

    Over all runs each kind is chosen in turn, so that a campaign reaches every point.
    """
    kinds = [kill for kill in KILLS if not (is_stateful and kill.victim in (CHECKPOINT, RIVAL))]
    first = number * count
    kills = [kinds[(first + index) % len(kinds)] for index in range(count)]
    random.Random(order).shuffle(kills)
    return kills


def kill_pipeline(
    server: Server, folder: Path, kills: list[Kill], *, is_stateful: bool, writers: int | None = None
) -> Outcome:
    """Run a pipeline with these kills and return the outcome.

    With ``writers=None`` each batch has one writer, because the batches are small.
    """
    for topic in (SOURCE, SINK):
        create_topic(server.bootstrap_servers, topic, partitions=_PARTITIONS)
    answers = _Answers()
    with Proxy(server.launch.port, answers) as proxy:
        job = Job(proxy.bootstrap_servers, is_stateful, writers, str(folder / "checkpoint"))
        run = _Run(server, answers, folder, job)
        try:
            for number, kill in enumerate(kills):
                run.kill(number, kill)
            problems = run.finish()
        finally:
            run.end_all()
    return Outcome(server.name, is_stateful, tuple(map(str, kills)), run.sent, tuple(problems))


class _Answers:
    """Decides about the broker's responses to the driver: all are passed on, except the next one to EndTxn if
    ``lose_next`` is set."""

    def __init__(self) -> None:
        self.lost = 0
        self.lose_next = False

    def __call__(self, api_key: int) -> Verdict:
        if api_key != ApiKey.END_TXN or not self.lose_next:
            return Verdict.PASS
        self.lose_next = False
        self.lost += 1
        return Verdict.CUT


class _Run:
    def __init__(self, server: Server, answers: _Answers, folder: Path, job: Job) -> None:
        self.sent = 0
        self._answers = answers
        self._server = server
        self._folder = folder
        self._job = job
        self._is_stateful = job.is_stateful
        job.write(folder)
        self._driver: subprocess.Popen[bytes] | None = None
        self._superseded: list[subprocess.Popen[bytes]] = []
        """Drivers whose group was taken over by a rival while they ran."""
        self._ended = 0
        """How many drivers ended because the broker was down, instead of waiting for it."""
        self._zombies: list[Halt] = []
        self._used_up: tuple[str, int] | None = None
        """A transactional id, and its producer id whose epochs are used up."""

    def kill(self, number: int, kill: Kill) -> None:
        halt = Halt(number, kill.point, survives=kill.victim == ZOMBIE)
        halt.write(self._folder)
        self._feed()
        self._start_driver()
        pid = self._wait_for(halt)
        self._release_zombies()
        match kill.victim:
            case "driver":
                self.end_driver()
            case "task":
                os.kill(pid, signal.SIGKILL)
            case "broker":
                self._server.kill()
                self._server.start()
            case "zombie":
                self.end_driver()
                self._zombies.append(halt)
            case "checkpoint":
                self.end_driver()
                shutil.rmtree(self._job.checkpoint)
            case "answer to EndTxn":
                self._answers.lose_next = True
            case "epochs":
                self.end_driver()
                name = self._job.transactional_id
                self._used_up = name, use_up_epochs(self._server.launch.port, name)
            case "rival":
                older = self._start_rival(number)
                halt.leave(self._folder).touch()
                self._feed()
                self._wait_for_end(older)
            case "offsets":
                halt.leave(self._folder).touch()
                self._expire_offsets()
            case "broker for long":
                self._server.kill()
                halt.leave(self._folder).touch()
                time.sleep(_OUTAGE_S)
                self._ended += self._driver is not None and self._driver.poll() is not None
                self._server.start()
        if kill.victim != ZOMBIE:
            halt.leave(self._folder).touch()
        if kill.victim == ANSWER:
            self._wait_for_loss()

    def finish(self) -> list[str]:
        """Wait until all input is consumed without further faults, and return the problems of the output."""
        (self._folder / "halt.json").unlink()
        for _ in range(2):  # A second time after the zombies of the last fault have been released.
            self._feed()
            deadline = time.monotonic() + SPARK_PATIENCE_S
            # Start a driver first: one that was killed after it had sent its offsets has left a transaction open, and
            # until that is aborted the group's offsets cannot be read.
            self._start_driver()
            while not self._is_consumed():
                if time.monotonic() > deadline:
                    return [
                        f"not all input was consumed {SPARK_PATIENCE_S:.0f} s after the last fault: {self._printed()}"
                    ]
                self._start_driver()
                time.sleep(_PAUSE_S)
            self._release_zombies()
        problems = [*self._problems(), *self._unchanged_id()]
        return problems + [f"{self._ended} drivers ended because a broker was away"] * bool(self._ended)

    def end_all(self) -> None:
        self.end_driver()
        for driver in self._superseded:
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGKILL)
                driver.wait()

    def end_driver(self) -> None:
        """Kill the driver and its JVM with SIGKILL. Processes outside their group survive, as on another machine."""
        if self._driver is not None:
            os.killpg(self._driver.pid, signal.SIGKILL)
            self._driver.wait()
            self._driver = None

    def _start_driver(self) -> None:
        if self._driver is not None and self._driver.poll() is None:
            return
        with (self._folder / "driver.txt").open("ab") as output:
            self._driver = subprocess.Popen(
                [sys.executable, "-m", "tools.spark_job", str(self._folder)],
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _start_rival(self, number: int) -> subprocess.Popen[bytes]:
        """Start a rival pipeline, which is the pipeline of this run from now on. Return the older driver, which still
        runs."""
        assert self._driver is not None
        older, self._driver = self._driver, None
        self._superseded.append(older)
        other = RIVAL_ID if self._job.transactional_id == TRANSACTIONAL_ID else TRANSACTIONAL_ID
        checkpoint = str(self._folder / f"checkpoint-{number}")
        self._job = replace(self._job, transactional_id=other, checkpoint=checkpoint)
        self._job.write(self._folder)
        before = self._fence()
        deadline = time.monotonic() + SPARK_PATIENCE_S
        while self._fence() == before:
            assert time.monotonic() < deadline, f"no claim in {SPARK_PATIENCE_S:.0f} s: {self._printed()}"
            self._start_driver()
            time.sleep(_PAUSE_S)
        return older

    def _wait_for_end(self, driver: subprocess.Popen[bytes]) -> None:
        """Wait until a driver whose group was taken over has stopped by itself, which it does with its next batch."""
        deadline = time.monotonic() + SPARK_PATIENCE_S
        while driver.poll() is None:
            assert time.monotonic() < deadline, f"a driver whose group was taken over still runs: {self._printed()}"
            time.sleep(_PAUSE_S)

    def _expire_offsets(self) -> None:
        """Delete the group's offsets, as if the job had been stopped between two batches for longer than offsets are
        kept."""
        offsets, commits = (Path(self._job.checkpoint, name) for name in ("offsets", "commits"))
        deadline = time.monotonic() + SPARK_PATIENCE_S
        while _last_batch(offsets) != _last_batch(commits) or not self._is_consumed():
            assert time.monotonic() < deadline, f"batches without end in {SPARK_PATIENCE_S:.0f} s: {self._printed()}"
            time.sleep(_PAUSE_S)
        self.end_driver()
        os.utime(offsets / str(_last_batch(offsets)), (time.time() - _EXPIRED_S,) * 2)
        with Admin(bootstrap_servers=self._server.bootstrap_servers) as admin:
            admin.groups.delete(GROUP)

    def _fence(self) -> tuple[int, int]:
        with Admin(bootstrap_servers=self._server.bootstrap_servers) as admin:
            found = admin.transactions.describe(fence_of(GROUP))
        return found.producer_id, found.producer_epoch

    def _wait_for(self, halt: Halt) -> int:
        deadline = time.monotonic() + SPARK_PATIENCE_S
        claim = halt.claim(self._folder)
        while not claim.exists():
            if time.monotonic() > deadline:
                raise AssertionError(f"{halt.point!r} was not reached in {SPARK_PATIENCE_S:.0f} s: {self._printed()}")
            # A driver that stopped by itself, for example because the broker was down, is started again, as an operator
            # would do.
            self._start_driver()
            time.sleep(_PAUSE_S)
        return int(claim.read_text())

    def _wait_for_loss(self) -> None:
        deadline = time.monotonic() + SPARK_PATIENCE_S
        while self._answers.lose_next:
            assert time.monotonic() < deadline, f"no answer to EndTxn in {SPARK_PATIENCE_S:.0f} s: {self._printed()}"
            time.sleep(_PAUSE_S)

    def _release_zombies(self) -> None:
        """Let the zombies continue, and try to write, now that their successor runs."""
        for halt in self._zombies:
            halt.leave(self._folder).touch()
        self._zombies.clear()

    def _feed(self) -> None:
        with Producer(bootstrap_servers=self._server.bootstrap_servers) as producer:
            numbers = range(self.sent, self.sent + _RECORDS)
            for future in [producer.send(SOURCE, b"%d" % number, b"%d" % (number % _KEYS)) for number in numbers]:
                future.result()
        self.sent += _RECORDS

    def _is_consumed(self) -> bool:
        with Cluster(bootstrap_servers=self._server.bootstrap_servers) as cluster:
            partitions = [TopicPartition(SOURCE, index) for index in range(_PARTITIONS)]
            ends = cluster.end_offsets(partitions)
            return ends == {place: at.offset for place, at in cluster.committed(GROUP, partitions).items()}

    def _problems(self) -> list[str]:
        written = self._written()
        expected = Counter(b"%d" % (number % _KEYS) for number in range(self.sent))
        if not self._is_stateful:
            found = Counter(value for _, value in written)
            wanted = Counter(b"%d" % number for number in range(self.sent))
            missing, twice = wanted - found, found - wanted
            problems = [f"missing: {sorted(missing.elements())[:10]}"] if missing else []
            return problems + ([f"twice or foreign: {sorted(twice.elements())[:10]}"] if twice else [])
        problems = []
        for key, total in expected.items():
            counts = [int(value) for of, value in written if of == key]
            if counts != sorted(set(counts)):
                problems.append(f"the counts of {key!r} do not grow: {counts}")
            if not counts or counts[-1] != total:
                problems.append(f"{key!r} was counted {counts[-1:]} times; it came {total} times")
        return problems

    def _unchanged_id(self) -> list[str]:
        if self._used_up is None:
            return []
        transactional_id, producer_id = self._used_up
        with Admin(bootstrap_servers=self._server.bootstrap_servers) as admin:
            is_same = admin.transactions.describe(transactional_id).producer_id == producer_id
        return [f"producer id {producer_id} had no epochs left, and is in use still"] if is_same else []

    def _written(self) -> list[tuple[bytes, bytes]]:
        return committed_rows(self._server.bootstrap_servers, SINK, _PARTITIONS)

    def _printed(self) -> str:
        return (self._folder / "driver.txt").read_bytes()[-2000:].decode(errors="replace")


def committed_rows(servers: str, topic: str, partition_count: int) -> list[tuple[bytes, bytes]]:
    """Return the key and value of every record that a read_committed consumer finds in a topic."""
    with Cluster(bootstrap_servers=servers, isolation_level=IsolationLevel.READ_COMMITTED) as cluster:
        partitions = [TopicPartition(topic, index) for index in range(partition_count)]
        return [
            (row["key"], row["value"])
            for place, end in cluster.end_offsets(partitions).items()
            for rows in read_split(Split(place, 0, end), cluster, include_headers=False, fail_on_data_loss=True)
            for row in rows.to_pylist()
        ]


def _last_batch(log: Path) -> int:
    """Return the number of the last batch in a log of Spark's checkpoint; -1 if there is none."""
    return max((int(path.name) for path in log.glob("*") if path.name.isdigit()), default=-1)
