"""Producer state that is frozen for a snapshot, and goes on meanwhile."""

from __future__ import annotations

from random import Random

import pytest

from semel.log.durability.checkpointing import prepare_checkpoint
from semel.log.durability.snapshot_files import SNAPSHOT_AT_ONCE_MAX
from semel.log.producers import producer_snapshot
from semel.testing.virtual.disk import VirtualDisk
from tests.logs import NOW_MS, append, batch, end_transaction, open_log, produced
from tests.unit.log.recovery.test_recovery import carry_out


@pytest.mark.parametrize("seed", range(20))
def test_a_frozen_state_stays_as_it_was_and_freezing_changes_nothing(seed: int) -> None:
    random = Random(seed)
    log, twin = open_log(VirtualDisk()), open_log(VirtualDisk())
    sequences = dict.fromkeys(range(5), 0)
    transactional = {0, 1}
    frozen = []
    for number in range(100):
        producer = random.randrange(5)
        if random.random() < 0.1:
            frozen.append((log.producers.freeze(), producer_snapshot.encode(twin.producers.snapshot_entries())))
        if producer in transactional and random.random() < 0.2:
            committed = random.random() < 0.5
            for each in (log, twin):
                end_transaction(each, committed=committed, producer=producer)
            continue
        for each in (log, twin):
            records = batch(
                "value",
                timestamp=NOW_MS + number,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=sequences[producer],
                is_transactional=producer in transactional,
            )
            append(each, records)
        sequences[producer] += 1
    assert frozen
    for state, expected in frozen:
        assert state.encode() == expected
    assert log.producers.snapshot_entries() == twin.producers.snapshot_entries()
    assert log.producers.open_transactions == twin.producers.open_transactions
    assert log.last_stable_offset == twin.last_stable_offset


def test_the_snapshot_of_a_great_many_producers_is_left_to_the_next_checkpoint() -> None:
    disk = VirtualDisk()
    log = open_log(disk)
    for producer in range(SNAPSHOT_AT_ONCE_MAX + 1):
        append(log, produced(0, producer=producer))
    path = f"/data/orders-0/{log.log_end_offset:020d}.snapshot"
    log.roll(NOW_MS)
    assert not disk.exists(path)
    expected = producer_snapshot.encode(log.producers.snapshot_entries())
    append(log, produced(1, producer=0))
    carry_out(disk, prepare_checkpoint(log))
    file = disk.open(path)
    assert file.read(0, file.size()) == expected
    append(log, produced(2, producer=0))
    checkpoint = prepare_checkpoint(log)
    assert checkpoint is not None
    assert len(checkpoint.snapshots) == 1
