"""A crash at every disk operation of a pass (scenario 49): afterwards the log says the same to everybody.

The same log is cleaned again and again, and each time the process dies one operation later: by ``kill -9``, which keeps
what was written, or by a power cut, which keeps what was synced and of the rest whatever chance left.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from semel.log.disk import read_file
from semel.testing.crash import SimulatedCrash
from semel.testing.page_cache import Unsynced
from tests.logs import FOLDER
from tests.unit.log.compaction.bench import Bench, latest


def dirty_log() -> Bench:
    """Four producers, aborts and commits across segments, tombstones; a part of it was compacted before."""
    bench = Bench(settings={"segment_bytes": 450, "delete_retention_ms": 1000})
    for number in range(4):
        bench.put(("a", f"{number}"), (f"k{number}", "1"), producer=1)
        bench.put((f"t{number}", f"{number}"), producer=2, transactional=True)
        bench.put((f"t{number}", "aborted"), ("a", "aborted"), producer=3, transactional=True)
        bench.put((f"k{number}", None))
        bench.end(2, committed=number % 2 == 0)
        if number % 2:
            bench.abort(3)
    bench.clean()
    bench.now_ms += 2000
    for number in range(4, 8):
        bench.put(("a", f"{number}"), (f"t{number - 4}", f"{number}"), producer=1)
        bench.put((f"t{number}", "aborted"), producer=4, transactional=True)
        bench.put(("b", "x" * 60), producer=2, transactional=True)
        bench.end(2, committed=True)
        if number % 2:
            bench.abort(4)
    bench.roll()
    bench.checkpoint()
    return bench


def what_everybody_sees(bench: Bench) -> dict[str, Any]:
    return {
        "table": latest(bench.committed()),
        "stable": bench.log.last_stable_offset,
        "start": bench.log.log_start_offset,
        "end": bench.log.log_end_offset,
        "producers": bench.log.describe_producers(),
        "open": bench.log.producers.open_transactions,
        "epochs": bench.log.epochs.entries,
    }


def clean(bench: Bench) -> None:
    for _ in bench.cleaner().clean(bench.log, bench.now_ms):
        pass


def die(bench: Bench, how: str) -> None:
    if how == "kill":
        bench.disk.kill()
    else:
        bench.disk.crash(Unsynced(how))


DIRTY = dirty_log()
EXPECTED = what_everybody_sees(DIRTY)


def test_the_log_under_test_has_something_of_everything() -> None:
    bench = DIRTY.copy()
    segments, size_bytes = len(bench.log.segments), bench.log.size_bytes
    assert bench.aborted()
    assert any(header.delete_horizon_ms for header in bench.headers())
    clean(bench)
    assert 2 < len(bench.log.segments) < segments
    assert bench.log.size_bytes < size_bytes
    assert what_everybody_sees(bench) == EXPECTED


@pytest.mark.parametrize("how", ["kill", "lost", "kept", "any"])
def test_scenario_49_a_crash_at_any_disk_operation_of_a_pass_changes_nothing_for_anybody(how: str) -> None:
    operations = 0
    for seed in range(3 if how == "any" else 1):
        operation = 0
        while True:
            operation += 1
            bench = DIRTY.copy(Random(operation * 10 + seed))
            bench.disk.crash_after(operation)
            try:
                clean(bench)
                break
            except SimulatedCrash:
                pass
            die(bench, how)
            bench.open()
            assert what_everybody_sees(bench) == EXPECTED, f"died in operation {operation}, seed {seed}"
            no_leftovers(bench)
            # And again from there.
            die(bench, how)
            bench.open()
            assert what_everybody_sees(bench) == EXPECTED
            clean(bench)
            assert what_everybody_sees(bench) == EXPECTED
            assert what_everybody_sees(bench.copy()) == EXPECTED
            operations += 1
    assert operations > 60


def test_scenario_49_a_crash_while_a_start_finishes_a_swap_is_finished_by_the_next_one() -> None:
    found = 0
    for operation in range(1, 200):
        bench = DIRTY.copy(Random(operation))
        bench.disk.crash_after(operation)
        try:
            clean(bench)
            break
        except SimulatedCrash:
            bench.disk.crash(Unsynced.KEPT)
        if not any(name.endswith(".log.swap") for name in bench.disk.list(FOLDER)):
            continue
        found += 1
        for start_operation in range(1, 30):
            again = bench.unopened(Random(start_operation))
            again.disk.crash_after(start_operation)
            try:
                again.open()
                break
            except SimulatedCrash:
                again.disk.crash(Unsynced.ANY)
            again.open()
            assert what_everybody_sees(again) == EXPECTED
            no_leftovers(again)
    assert found > 3


def no_leftovers(bench: Bench) -> None:
    assert not [name for name in bench.disk.list(FOLDER) if name.endswith((".cleaned", ".swap", ".deleted", ".tmp"))]
    bases = {name[:20] for name in bench.disk.list(FOLDER) if name.endswith(".log")}
    assert {name[:20] for name in bench.disk.list(FOLDER) if name.endswith("index")} <= bases


def test_what_a_pass_leaves_on_disk_is_what_it_left_in_memory() -> None:
    bench = DIRTY.copy()
    clean(bench)
    again = bench.copy()
    assert again.batches() == bench.batches()
    for mine, other in zip(bench.log.segments, again.log.segments, strict=True):
        assert list(mine.offset_index) == list(other.offset_index)
        assert list(mine.time_index) == list(other.time_index)
        assert list(mine.transaction_index) == list(other.transaction_index)
        assert mine.largest_timestamp == other.largest_timestamp
        assert mine.size_bytes == other.size_bytes == len(read_file(bench.disk, mine.path(".log")))
