"""Runs attacks in turn on one broker, with the canary as a client of it, and returns the verdict.

After the attacks the broker must still answer; SIGTERM must end it within ten seconds; it must start again, after that
and after ``kill -9``; and every record of the canary that was acknowledged must be there, once and in order.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from semel.wire.apis import ApiKey
from semel.wire.messages.api_versions import ApiVersionsRequest
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from tools.hostile.attack_connection import CLOSED, HOST, AttackConnection, response_word
from tools.hostile.attack_context import Attack, AttackContext
from tools.hostile.canary import Waits, read_back
from tools.patience import PATIENCE_S
from tools.server import NotReady, Server

WAIT_MS_MAX = 250
MEMORY_MB_MAX = 300
STOP_SECONDS_MAX = 10.0
LOG_BYTES_MAX = 2 * 2**20
OTHER_ADDRESS = "127.0.0.2"
CONNECT_PAUSE_S = 0.1
FORGED = "FORGED-LINE"
"""Attacks put it after a newline into every text that may be logged. No line of the log may begin with it."""

# The key types of FindCoordinator.
GROUP, TRANSACTION = 0, 1

LONGEST_TURN = "semel_loop_longest_turn_seconds"
REQUESTS = "semel_requests_total"

# So that the canary's group has a generation at once.
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


@dataclass
class Result:
    """The result of one attack. ``findings`` are the broker's faults, except for waits that were too long."""

    attack: str
    seconds: float
    answers: dict[str, int]
    findings: list[str]
    memory_peak_mb: int
    cpu_seconds: float
    longest_turn_ms: int
    """The longest turn of the broker's event loop, by its metrics; a busy machine makes it longer."""
    canary: Waits
    requests_answered: int = 0
    """The number of requests by the broker's metrics, including the canary's. Frames that are no requests, and requests
    that wait for an earlier one to be answered, are not counted."""

    def lateness(self) -> list[str]:
        """Return the canary's wait if it was longer than the limit."""
        waits = self.canary
        if waits.broker_ms <= WAIT_MS_MAX:
            return []
        text = f"the canary waited {waits.broker_ms} ms ({waits.broker_at}); the limit is {WAIT_MS_MAX} ms"
        return [f"{text} (by the clock {waits.longest_ms} ms; the longest turn of the loop {self.longest_turn_ms} ms)"]


@dataclass
class Trial:
    results: list[Result] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    """Findings that belong to no single attack: the stop, the restarts, the log."""
    stop_seconds: float = 0.0
    produced: int = 0

    @property
    def sound(self) -> bool:
        """Whether there are no findings, regardless of how long anything took."""
        return not self.all_findings()

    @property
    def passed(self) -> bool:
        return not self.failures()

    def failures(self) -> list[str]:
        """Return everything for which the trial failed: findings, and waits that were too long."""
        return self.all_findings() + self.lateness()

    def all_findings(self) -> list[str]:
        """Return the findings of the trial and of all its attacks, regardless of how long anything took."""
        return self.findings + [f"{result.attack}: {text}" for result in self.results for text in result.findings]

    def lateness(self) -> list[str]:
        late = [f"{result.attack}: {text}" for result in self.results for text in result.lateness()]
        if self.stop_seconds > STOP_SECONDS_MAX:
            late.append(f"SIGTERM took {self.stop_seconds} s; the limit is {STOP_SECONDS_MAX} s")
        return late

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "passed": self.passed}


def withstand(server: Server, attacks: Sequence[Attack], *, seed: int = 0, scale: float = 1.0) -> Trial:
    """Start the server, run the attacks, and return the verdict. The server does not run when this returns."""
    trial = Trial()
    server = _limited(server, attacks)
    server.start()
    try:
        with _canary(server) as canary:
            _prepare(server)
            for attack in attacks:
                trial.results.append(_attacked(server, attack, canary, seed=seed, scale=scale))
            last = canary.finish()
            trial.produced = last.produced
            trial.findings += [f"canary: {trouble}" for trouble in last.troubles]
        trial.findings += read_back(server.launch.port, trial.produced)
        _end_and_begin_again(server, attacks, trial, seed)
    except (NotReady, OSError, AssertionError, CanaryGone) as error:
        trial.findings.append(f"{type(error).__name__}: {error}"[-2000:])
    finally:
        server.kill()
    trial.findings += _in_the_log(server.launch.output)
    return trial


def _limited(server: Server, attacks: Sequence[Attack]) -> Server:
    """Return the server with the lowest limit of descriptors that an attack wants. ``exec`` keeps the process id."""
    limits = [attack.descriptors_max for attack in attacks if attack.descriptors_max is not None]
    if not limits:
        return server
    shell = ["/bin/sh", "-c", f'ulimit -n {min(limits)}; exec "$0" "$@"']
    return Server(replace(server.launch, command=[*shell, *server.launch.command]))


class CanaryGone(Exception):
    """The canary's process has ended, which it does if the broker does not serve it at all."""


class _CanaryProcess:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def said(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise CanaryGone(f"the canary ended with code {self._process.wait()}")
        return json.loads(line)

    def waits(self) -> Waits:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Waits(**self.said())

    def finish(self) -> Waits:
        """End the canary, and return its last measurements."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return Waits(**self.said())


@contextlib.contextmanager
def _canary(server: Server) -> Iterator[_CanaryProcess]:
    command = [sys.executable, "-m", "tools.hostile.canary", str(server.launch.port), str(server.pid)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        canary = _CanaryProcess(process)
        assert canary.said() == "ready"
        yield canary
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _prepare(server: Server) -> None:
    """Let the broker create its internal topics, and wait until their files are on the disk.

    The first requests to the coordinators create a hundred partitions. For some seconds after that a sync waits for the
    file system, which commits the names of all their files, and that time would be charged to the attack.
    """
    with AttackConnection(server.launch.port, timeout_s=60) as client:
        for key_type in (GROUP, TRANSACTION):
            # The request is refused if there are only few descriptors.
            client.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(key_type=key_type, coordinator_keys=["any"]))
    os.sync()


def _attacked(server: Server, attack: Attack, canary: _CanaryProcess, *, seed: int, scale: float) -> Result:
    canary.waits()
    answered_before = _metrics(server).get(REQUESTS, 0.0)  # Reading the metrics also resets the longest turn.
    chance = Random(f"{attack.name} {seed}")
    launch = server.launch
    context = AttackContext(launch.port, launch.metrics_port, launch.secured_ports, scale=scale, random=chance)
    cpu_before, started = server.cpu_seconds(), time.monotonic()
    _forget_peak(server)
    try:
        attack.run(context)
    except (OSError, AssertionError) as error:
        context.finding(f"the attack could not go on: {type(error).__name__}: {error}")
    seconds = time.monotonic() - started
    context.findings += _unanswered(server.launch.port)
    waits = canary.waits()
    context.findings += [f"canary: {trouble}" for trouble in waits.troubles]
    peak_mb = _peak_bytes(server) // 2**20
    if peak_mb > MEMORY_MB_MAX:
        context.findings.append(f"memory: {peak_mb} MB; the limit is {MEMORY_MB_MAX} MB")
    metrics = _metrics(server)
    return Result(
        attack=attack.name,
        seconds=round(seconds, 2),
        answers=dict(context.answers),
        findings=context.findings,
        memory_peak_mb=peak_mb,
        cpu_seconds=round(server.cpu_seconds() - cpu_before, 2),
        longest_turn_ms=int(metrics.get(LONGEST_TURN, 0.0) * 1000),
        canary=waits,
        requests_answered=int(metrics.get(REQUESTS, 0.0) - answered_before),
    )


def _unanswered(port: int) -> list[str]:
    """Open new connections after an attack: from another address, and from the attacker's own.

    The own address may have used up its rate of connections. A connection that is closed for that is tried again, as
    every client does.
    """
    findings = []
    if (word := _answer_to_new_connection(port, OTHER_ADDRESS)) != "NONE":
        findings.append(f"afterwards a new connection from another address is {word}")
    until = time.monotonic() + PATIENCE_S
    while (word := _answer_to_new_connection(port, HOST)) == CLOSED and time.monotonic() < until:
        time.sleep(CONNECT_PAUSE_S)
    if word != "NONE":
        findings.append(f"afterwards a new connection is {word}")
    return findings


def _answer_to_new_connection(port: int, source: str) -> str:
    try:
        with AttackConnection(port, timeout_s=60, source=source) as client:
            return response_word(client.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("after", "1")))
    except OSError as error:
        return str(error)


def _end_and_begin_again(server: Server, attacks: Sequence[Attack], trial: Trial, seed: int) -> None:
    context = AttackContext(server.launch.port, random=Random(seed))
    beside = [
        threading.Thread(target=_ended_by_the_broker, args=(attack, context), daemon=True)
        for attack in attacks
        if attack.while_stopping is not None
    ]
    for thread in beside:
        thread.start()
    if beside:
        time.sleep(0.5)  # So that SIGTERM comes while the attack runs.
    started = time.monotonic()
    try:
        server.stop()
    finally:
        trial.stop_seconds = round(time.monotonic() - started, 2)
        context.stopped.set()
    for thread in beside:
        thread.join()
    for how in ("a clean stop", "kill -9"):
        server.start()
        trial.findings += [f"after {how}: {text}" for text in read_back(server.launch.port, trial.produced)]
        server.kill()


def _ended_by_the_broker(attack: Attack, context: AttackContext) -> None:
    assert attack.while_stopping is not None
    with contextlib.suppress(OSError, AssertionError):
        attack.while_stopping(context)


def _in_the_log(output: Path) -> list[str]:
    text = output.read_text(errors="replace")
    found = []
    if count := text.count("Traceback (most recent call last)"):
        at = text.index("Traceback (most recent call last)")
        found.append(f"{count} tracebacks in the log; the first: {text[max(0, at - 300) : at + 1500]}")
    if any(line.startswith(FORGED) for line in text.splitlines()):
        found.append("a stranger wrote a line of the log")
    if len(text) > LOG_BYTES_MAX:
        found.append(f"{len(text)} bytes of log")
    return found


def _metrics(server: Server) -> dict[str, float]:
    """Return the broker's metrics, summed up by name; empty if it has no metrics page."""
    if server.launch.metrics_port is None:
        return {}
    try:
        with urllib.request.urlopen(f"http://{HOST}:{server.launch.metrics_port}/metrics", timeout=30) as page:
            lines = page.read().decode().splitlines()
    except OSError:
        return {}
    numbers: dict[str, float] = defaultdict(float)
    for line in lines:
        if line and line[0] != "#":
            name, _, value = line.rpartition(" ")
            numbers[name.partition("{")[0]] += float(value)
    return numbers


def _peak_bytes(server: Server) -> int:
    for line in Path(f"/proc/{server.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return server.resident_bytes()


def _forget_peak(server: Server) -> None:
    """Reset the peak of the resident memory, if the system can do that."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{server.pid}/clear_refs").write_text("5")
