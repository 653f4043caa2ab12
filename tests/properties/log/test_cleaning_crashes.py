"""A crash at every disk operation of a pass (scenario 49): afterwards the log says the same to everybody.

The same log is cleaned again and again, and each time the process dies one operation later: by ``kill -9``, which keeps
what was written, or by a power cut, which keeps what was synced and of the rest whatever chance left.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from semel.log.disk import read_file
from semel.testing.virtual.crash import SimulatedCrash
from semel.testing.virtual.page_cache import Unsynced
from tests.logs import FOLDER
from tests.unit.log.compaction.bench import Bench, latest


def dirty_log() -> Bench:
    """Small segments that become larger ones; in each of them records that must stay, and aborted ones.

    Transactions end segments later, some beyond the range; a part of the log was compacted before.
    """
    bench = Bench(settings={"segment_bytes": 1200, "delete_retention_ms": 1000, "index_interval_bytes": 0})
    for number in range(9):
        bench.put((f"k{number}", "stays"), ("a", f"{number}"), producer=1)
        bench.put((f"t{number}", "aborted"), (f"k{number}", "aborted"), producer=3, transactional=True)
        bench.put((f"t{number}", "committed"), producer=2, transactional=True)
        bench.put((f"s{number}", "aborted"), producer=5, transactional=True)
        bench.abort(5)
        bench.roll()
        bench.put((f"k{number - 3}", None))
        bench.end(2, committed=True)
        if number % 3 == 1:
            bench.abort(3)
        if number == 3:
            bench.clean()
            bench.now_ms += 2000
    bench.roll()
    bench.put(("open", "undecided"), producer=4, transactional=True)
    bench.abort(3)
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


def clean(bench: Bench, *, keys_max: int = 12) -> None:
    """With a map for a few keys only: a part of the log is cleaned, the rest copied, aborted records among it."""
    cleaner = bench.cleaner()
    cleaner._map_entries_max = keys_max
    for _ in cleaner.clean(bench.log, bench.now_ms):
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
    assert len(bench.records()) > len(bench.committed()), "and aborted records are left that only the index knows"


@pytest.mark.parametrize("how", ["kill", "lost", "kept", "any"])
def test_scenario_49_a_crash_at_any_disk_operation_of_a_pass_changes_nothing_for_anybody(how: str) -> None:
    operation, seed = 1, 0
    while (crash := died_in(operation, seed, how)) is not None:
        # Of the names that changed since the last sync any may survive: there are many ways to lose some.
        several = how == "any" and "write" not in crash
        operation, seed = (operation, seed + 1) if several and seed < 9 else (operation + 1, 0)
    assert operation > 60


def died_in(operation: int, seed: int, how: str) -> str | None:
    """Let a pass die in its n-th operation, and look. Returns in which it was; ``None`` if there were not so many."""
    bench = DIRTY.copy(Random(operation * 100 + seed))
    bench.disk.crash_after(operation)
    try:
        clean(bench)
        return None
    except SimulatedCrash as crash:
        where = str(crash)
    die(bench, how)
    bench.open()
    assert what_everybody_sees(bench) == EXPECTED, f"{where}, seed {seed}"
    no_leftovers(bench)
    if seed == 0:
        clean(bench)
        assert what_everybody_sees(bench) == EXPECTED, f"cleaned again after: {where}"
    return where


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
