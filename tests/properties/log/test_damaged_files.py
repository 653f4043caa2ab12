"""Every flip, cut or loss of a file beside the log: nothing that was acknowledged is lost."""

from __future__ import annotations

import pytest

from semel.log.disk import read_file, write_file
from semel.log.partition_log import PartitionLog
from semel.testing.virtual.disk import VirtualDisk
from tests.logs import append, committed_values, end_transaction, produced, values
from tests.unit.log.recovery.test_damage import FOLDER, Machine, flip, metadata_path, stopped


def test_every_flipped_bit_of_the_partition_metadata_leaves_the_records_where_they_are() -> None:
    machine = stopped()
    data = read_file(machine.disk, metadata_path())
    for position in range(len(data)):
        for bit in range(8):
            flip(machine, metadata_path(), position, 1 << bit)
            machine.start()
            assert machine.log().log_end_offset == 12, (position, bit)
            machine.kill()
            write_file(machine.disk, metadata_path(), data)


@pytest.fixture(scope="module")
def with_transactions() -> Machine:
    machine = Machine()
    log = machine.log()
    for number in range(4):
        append(log, produced(2 * number, "kept", producer=7, transactional=True))
        append(log, produced(2 * number, "dropped", producer=8, transactional=True))
        end_transaction(log, committed=True, producer=7)
        end_transaction(log, committed=False, producer=8)
        append(log, produced(2 * number + 1, "kept", producer=7, transactional=True))
        end_transaction(log, committed=True, producer=7)
        append(log, produced(2 * number + 1, "dropped", producer=8, transactional=True))
        end_transaction(log, committed=False, producer=8)
    machine.settle()
    machine.stop()
    return machine


SUFFIXES = [
    ".index",
    ".timeindex",
    ".txnindex",
    ".checksums",
    ".snapshot",
    "leader-epoch-checkpoint",
    "partition.checkpoint",
]


def seen_after_restart(machine: Machine, disk: VirtualDisk) -> object:
    machine.disk = disk
    machine.start()
    log = machine.log()
    found = seen(log)
    machine.kill()
    return found


def seen(log: PartitionLog) -> object:
    entries = [list(map(tuple, segment.transaction_index)) for segment in log.segments]
    positions = [[segment.locate(offset) for offset in range(log.log_end_offset)] for segment in log.segments]
    return values(log), committed_values(log), entries, positions, log.epochs.entries, log.largest_timestamp()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_derived_file_that_is_flipped_cut_or_gone_is_made_again(with_transactions: Machine, suffix: str) -> None:
    machine, disk = with_transactions, with_transactions.disk
    try:
        expected = seen_after_restart(machine, disk.copy())
        names = [name for name in disk.list(FOLDER) if name.endswith(suffix)]
        for name in sorted({names[0], names[len(names) // 2], names[-1]}):
            path = f"{FOLDER}/{name}"
            data = read_file(disk, path)
            step = len(data) // 25 + 1
            changes = [None, *(data[:size] for size in range(0, len(data), 2 * step))]
            changes += [
                data[:position] + bytes([data[position] ^ (1 << position % 8)]) + data[position + 1 :]
                for position in range(0, len(data), step)
            ]
            for change in changes:
                damaged = disk.copy()
                damaged.remove(path) if change is None else write_file(damaged, path, change)
                assert seen_after_restart(machine, damaged) == expected, (name, change)
    finally:
        machine.disk = disk


# Log starts
