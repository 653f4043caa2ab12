"""Scene 11: the driver of a Spark micro-batch is killed at each of its steps, and started again.

The driver is a process that is really killed. There is no Spark in it: starting Spark takes longer than all other
scenes together. The steps, the note beside the committed offset and the decision whether a batch has to run again are
those of ``semel.spark``; ``make demo`` and ``make campaign-spark`` kill real Spark drivers.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Final

from semel.client.values import OffsetAndMetadata
from semel.lab.driver_process import DONE, GROUP, INPUT, NO_BATCH, OUTPUT, RUNS, SKIPS, STEPS, value_of
from semel.lab.scene import DUPLICATES, LOST, SEEN, Fact, Scene, Verdict, missing, repeated
from semel.lab.stage import SceneFailed, Stage

_RUN_AGAIN: Final = (
    "The driver is killed when batch {number} is {step}. The next driver asks where the group is: the batch is not "
    "committed, and runs again."
)
_SKIPPED: Final = (
    "The driver is killed when batch {number} is {step}. The next driver asks where the group is: the batch is "
    "committed, and is skipped."
)


def _play(stage: Stage) -> Verdict:
    stage.broker()
    stage.topic(INPUT.topic, shown=False)
    stage.topic(OUTPUT)
    stage.admin.groups.alter_offsets(GROUP, {INPUT: OffsetAndMetadata(0, NO_BATCH)}).all()
    drivers = _Drivers(stage)
    stage.watch("drivers", drivers.told)
    for number, step in enumerate(STEPS):
        drivers.live(number, killed_after=step)
    drivers.live(len(STEPS), killed_after=None)
    wanted, found = list(map(value_of, range(len(STEPS)))), stage.read(OUTPUT)
    return Verdict(
        (
            Fact("kills", drivers.kills, len(STEPS)),
            Fact(SEEN, len(found), len(wanted)),
            Fact(DUPLICATES, repeated(found), 0),
            Fact(LOST, missing(wanted, found), 0),
            Fact("batches run again", drivers.decisions.count(RUNS)),
            Fact("batches skipped, because they were committed", drivers.decisions.count(SKIPS)),
        )
    )


class _Drivers:
    """The driver's processes, one after the other. Each begins with the batch in which the one before was killed."""

    def __init__(self, stage: Stage) -> None:
        self.kills = 0
        self.decisions: list[str] = []
        """What each driver decided about the batch in which the one before was killed: ``RUNS`` or ``SKIPS``."""
        self._stage = stage
        self._ends: list[str] = []

    def told(self) -> list[str]:
        return self._ends[-3:]

    def live(self, number: int, *, killed_after: str | None) -> None:
        """Run a driver until it ends, or until it has come to the step of batch ``number`` after which it is killed."""
        kind = "transaction" if self._stage.protected else "plain"
        last = number if killed_after is not None else number - 1
        arguments = [self._stage.servers, str(max(0, number - 1)), str(last), kind]
        process = subprocess.Popen(
            [sys.executable, "-m", "semel.lab.driver_process", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            self._watch(process, number, killed_after)
        finally:
            process.kill()
            _, errors = process.communicate()
        if process.returncode not in (0, -signal.SIGKILL):
            raise SceneFailed(f"the driver of batch {number} ended with {process.returncode}: {errors.strip()[-500:]}")
        if killed_after is not None:
            self.kills += process.returncode == -signal.SIGKILL
            self._ends.append(f"{process.pid} kill -9")

    def _watch(self, process: subprocess.Popen[str], number: int, killed_after: str | None) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            batch, _, what = line.strip().partition(" ")
            if int(batch) == number and what == killed_after:
                return
            if int(batch) == number - 1 and what in (RUNS, SKIPS):
                self.decisions.append(what)
            if int(batch) == number - 1 and what == DONE:
                text = _SKIPPED if self.decisions[-1] == SKIPS else _RUN_AGAIN
                self._stage.step(text, number=number - 1, step=STEPS[number - 1])
            process.stdin.write("\n")
            process.stdin.flush()
        process.wait()


MICRO_BATCH: Final = Scene(
    11,
    "micro-batch",
    "A Spark micro-batch, killed at each step",
    (
        "A pipeline writes the output of a micro-batch and the offsets that it has read in one transaction, with a "
        "note which batch it was. Whenever the driver dies, the next one can tell whether the batch has to run again."
    ),
    "output, offsets and note in one transaction",
    _play,
)
