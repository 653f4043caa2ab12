"""Runs a program of one framework that reads one topic and writes another; it is killed once and started again."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from semel import blocking
from tools.brokers import semel
from tools.load import create_topic
from tools.patience import wait_until
from tools.server import Server, running

RECORDS: Final = 2000
KEYS: Final = 5
KILLED_AFTER: Final = 217

Written: TypeAlias = list[tuple[bytes | None, bytes | None]]
"""The keys and values of the output, in order."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """How an output is judged: whether it is complete, and which faults it has."""

    is_complete: Callable[[Written], bool]
    faults: Callable[[Written], list[str]]


def _values() -> list[bytes]:
    return [b"v%d" % number for number in range(RECORDS)]


def _nothing_lost(written: Written) -> bool:
    return set(_values()) <= {value for _, value in written}


def _only_copies(written: Written) -> list[str]:
    unknown = {value for _, value in written} - set(_values())
    return [f"{len(unknown)} values that were never sent"] if unknown else []


COPIES: Final = Judgement(_nothing_lost, _only_copies)
"""At least once: every value must be in the output; some may be there again after the kill."""


def _counts() -> Counter[tuple[bytes, bytes]]:
    each = RECORDS // KEYS
    return Counter((b"k%d" % key, b"%d" % count) for key in range(KEYS) for count in range(1, each + 1))


def _all_counted(written: Written) -> bool:
    return len(written) >= RECORDS


def _not_exactly_once(written: Written) -> list[str]:
    found = Counter((key or b"", value or b"") for key, value in written)
    expected = _counts()
    missing, extra = (expected - found).total(), (found - expected).total()
    return [f"{missing} counts are missing and {extra} are there again or wrong"] if missing or extra else []


COUNTS: Final = Judgement(_all_counted, _not_exactly_once)
"""Exactly once: the output must have each count of every key once."""


def killed_run(command: Callable[[Path], Sequence[str]], judgement: Judgement) -> dict[str, object]:
    """Run the program, kill it, run it again, and return the verdict.

    ``command`` returns the command line of the program for a folder for its state.
    """
    with tempfile.TemporaryDirectory(prefix="semel-framework-") as scratch:
        folder = Path(scratch)
        with running(semel(folder / "broker", settings={"group.initial.rebalance.delay.ms": "0"})) as server:
            for topic in ("input", "output"):
                create_topic(server.bootstrap_servers, topic, partitions=1)
            with blocking.Producer(bootstrap_servers=server.bootstrap_servers) as producer:
                for number, value in enumerate(_values()):
                    producer.send("input", value, key=b"k%d" % (number % KEYS))
            return _judged(server, list(command(folder / "state")), folder / "output.txt", judgement)


def _judged(server: Server, command: Sequence[str], output: Path, judgement: Judgement) -> dict[str, object]:
    environment = {**os.environ, "BOOTSTRAP_SERVERS": server.bootstrap_servers}
    written: Written = []
    settings = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    consumer = blocking.Consumer(bootstrap_servers=server.bootstrap_servers, **settings)  # type: ignore[arg-type]
    consumer.assign([("output", 0)])

    def arrived() -> Written:
        written.extend((record.key, record.value) for record in consumer.poll(200))
        return written

    def told() -> str:
        return f"{len(written)} records in the output; {output.read_text(errors='replace')[-2000:]}"

    with consumer, output.open("ab") as printed:
        program = subprocess.Popen(command, env=environment, stdout=printed, stderr=subprocess.STDOUT)
        try:
            wait_until(lambda: len(arrived()) >= KILLED_AFTER, told)
            program.kill()
            program.wait()
            before = len(written)
            program = subprocess.Popen(command, env=environment, stdout=printed, stderr=subprocess.STDOUT)
            wait_until(lambda: judgement.is_complete(arrived()), told)
            wait_until(lambda: len(written) == len(arrived()), told)  # Until no more records arrive.
        finally:
            program.kill()
            program.wait()
    faults = judgement.faults(written)
    return {
        "records": RECORDS,
        "written_before_the_kill": before,
        "written": len(written),
        "written_again": len(written) - RECORDS,
        "faults": faults,
        "passed": not faults,
    }
