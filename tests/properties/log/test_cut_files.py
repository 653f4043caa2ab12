"""Files of a log that are cut at any byte, or have any bit flipped, after a crash (scenarios 10 and 13)."""

from __future__ import annotations

import pytest

from semel.log.disk import read_file
from semel.testing.virtual.disk import VirtualDisk
from tests.logs import (
    FOLDER,
    batches,
    open_log,
)
from tests.unit.log.recovery.test_recovery import CONFIG, filled, replayed, state, truncate_file


@pytest.mark.parametrize("checkpoint_after", [None, 0, 7])
def test_scenario_10_a_log_cut_at_any_byte_is_the_replay_of_its_whole_batches(checkpoint_after: int | None) -> None:
    """Cut at every byte of the last three batches. Loading again changes nothing."""
    disk, data, recovery_point = filled(checkpoint_after=checkpoint_after)
    names = [name for name in disk.list(FOLDER) if name.endswith(".log")]
    starts = _starts(disk, names)
    cut_positions = 0
    for number in range(len(data) - 3, len(data)):
        name, start = starts[number]
        for cut in range(start, start + len(data[number])):
            crashed = disk.copy()
            for later in [later for later in names if later > name]:
                crashed.remove(f"{FOLDER}/{later}")
            truncate_file(crashed, f"{FOLDER}/{name}", cut)
            expected = replayed(data[:number])
            first = open_log(crashed, config=CONFIG, recovery_point=recovery_point)
            assert state(first) == expected, f"{name} cut at {cut}"
            second = open_log(crashed, config=CONFIG, recovery_point=recovery_point)
            assert state(second) == expected, f"{name} cut at {cut}, loaded again"
            cut_positions += 1
    assert cut_positions > 200


@pytest.mark.parametrize("checkpoint_after", [None, 0])
def test_scenario_10_a_flipped_bit_cuts_the_log_in_front_of_its_batch(checkpoint_after: int | None) -> None:
    disk, data, recovery_point = filled(checkpoint_after=checkpoint_after)
    names = [name for name in disk.list(FOLDER) if name.endswith(".log")]
    starts = _starts(disk, names)
    for number in range(len(data) - 3, len(data)):
        name, start = starts[number]
        # The base offset and leader epoch lie outside the CRC: a flip there may leave another valid batch.
        for position in range(start + 16, start + len(data[number])):
            crashed = disk.copy()
            file = crashed.open(f"{FOLDER}/{name}")
            file.write(position, bytes([file.read(position, 1)[0] ^ 0x10]))
            log = open_log(crashed, config=CONFIG, recovery_point=recovery_point)
            assert state(log) == replayed(data[:number]), f"{name} at {position}"


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint"])
def test_scenario_13_a_derived_file_cut_at_any_byte_is_made_again(suffix: str) -> None:
    disk, data, recovery_point = filled(checkpoint_after=0)
    expected = replayed(data)
    for name in [name for name in disk.list(FOLDER) if name.endswith(suffix)]:
        size = disk.open(f"{FOLDER}/{name}").size()
        for cut in range(size):
            crashed = disk.copy()
            truncate_file(crashed, f"{FOLDER}/{name}", cut)
            # What was synced at the checkpoint cannot be cut by a crash; without one, everything is read again.
            for point in (0, recovery_point) if _is_caught(suffix, cut) else (0,):
                log = open_log(crashed, config=CONFIG, recovery_point=point)
                assert state(log) == expected, f"{name} cut at {cut}, recovery point {point}"
                assert state(open_log(crashed, config=CONFIG, recovery_point=point)) == expected


def _is_caught(suffix: str, cut: int) -> bool:
    """Whether a file cut there is known not to be whole. A cut between two entries leaves a shorter index, which is as
    good as a longer one for offsets; for the others it is not, but their files are synced before the point moves."""
    entry_size = {".txnindex": 34, ".timeindex": 12}.get(suffix)
    return entry_size is None or cut % entry_size != 0


def _starts(disk: VirtualDisk, names: list[str]) -> list[tuple[str, int]]:
    found = []
    for name in names:
        position = 0
        for data, _ in batches(read_file(disk, f"{FOLDER}/{name}")):
            found.append((name, position))
            position += len(data)
    return found
