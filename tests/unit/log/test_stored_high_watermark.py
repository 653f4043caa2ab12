"""The high watermark of a partition with several replicas: what a start takes it to be, and when it is written."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from semel.log.config import LogConfig
from semel.log.disk import read_file, write_file
from semel.log.durability import checkpoints
from semel.log.durability.checkpointer import HIGH_WATERMARK_INTERVAL_MS
from semel.log.partition_log import PartitionLog
from semel.log.topic_logs import TopicLogs
from semel.testing.virtual.page_cache import Unsynced
from semel.types import TopicPartition
from tests.logs import append, batch, committed_values, end_transaction, produced, read_all, values
from tests.unit.log.test_directory import SYNCED, UNSYNCED, Machine

FILE = "/data/replication-offset-checkpoint"
ORDERS = TopicPartition("orders", 0)


class Replica(Machine):
    """A broker that has one of several replicas. Its logs confirm nothing by themselves."""

    def __post_init__(self) -> None:
        both = frozenset({0, 1})
        self.topics = {"orders": replace(SYNCED, replicated=both), "clicks": replace(UNSYNCED, replicated=both)}
        super().__post_init__()

    def restart(self, *, power_cut: bool) -> None:
        super().restart(power_cut=power_cut)
        for log in self.directory.logs.values():
            log.on_durable = _nothing

    def create(self, topic: str, partition: int = 0) -> PartitionLog:
        log = super().create(topic, partition)
        log.on_durable = _nothing
        return log

    def stop(self) -> None:
        """A clean stop, and a start."""
        self.close()
        self.directory = self.open()

    def close(self) -> None:
        closing = self.loop.create_task(self.directory.close())
        while not closing.done():
            self.turn()
            for worker in self.workers.values():
                while worker.jobs:
                    worker.step()
                    self.turn()

    def stored(self) -> int | None:
        return checkpoints.read_high_watermarks(self.disk, FILE).get(ORDERS)


def _nothing(log: PartitionLog) -> None:
    """A follower that is not told, and a leader whose followers have not fetched."""


@pytest.fixture
def replica() -> Replica:
    return Replica()


def five_of_which_three_are_confirmed(replica: Replica) -> PartitionLog:
    log = replica.create("orders")
    for number in range(5):
        append(log, batch(f"value {number}"))
    replica.commit()
    log.advance_high_watermark(3)
    return log


@pytest.mark.parametrize("power_cut", [False, True])
def test_what_was_not_confirmed_is_not_shown_after_a_start(replica: Replica, power_cut: bool) -> None:
    five_of_which_three_are_confirmed(replica)
    replica.checkpoint()
    replica.restart(power_cut=power_cut)
    log = replica.log("orders")
    assert (log.high_watermark, log.last_stable_offset, log.durable_offset, log.log_end_offset) == (3, 3, 5, 5)
    assert [offset for offset, _ in values(log)] == [0, 1, 2]
    log.advance_high_watermark(5)
    assert len(values(log)) == 5


def test_nor_is_what_comes_from_the_journal(replica: Replica) -> None:
    log = five_of_which_three_are_confirmed(replica)
    replica.checkpoint()
    append(log, batch("in the journal only"))
    replica.commit()
    replica.directory.kill()
    replica.disk.crash(Unsynced.LOST)
    replica.directory = replica.open()
    log = replica.log("orders")
    assert (log.high_watermark, log.log_end_offset) == (3, 6)


def test_the_only_replica_shows_all_that_it_has() -> None:
    machine = Machine()
    log = machine.create("orders")
    append(log, batch("a", "b"))
    machine.commit()
    log.high_watermark = 1
    machine.checkpoint()
    machine.restart(power_cut=True)
    assert machine.log("orders").high_watermark == 2


def test_a_clean_stop_keeps_it(replica: Replica) -> None:
    five_of_which_three_are_confirmed(replica)
    replica.stop()
    assert (replica.log("orders").high_watermark, replica.log("orders").log_end_offset) == (3, 5)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(None, id="missing"),
        pytest.param((b"orders 0 3", b"orders 0 5"), id="a digit"),
        pytest.param((b"\n1\n", b"\n7\n"), id="a count"),
    ],
)
def test_without_a_sound_file_a_log_shows_nothing(replica: Replica, damage: tuple[bytes, bytes] | None) -> None:
    five_of_which_three_are_confirmed(replica)
    replica.checkpoint()
    data = read_file(replica.disk, FILE)
    if damage is None:
        replica.disk.remove(FILE)
    else:
        assert damage[0] in data
        write_file(replica.disk, FILE, data.replace(*damage))
    replica.restart(power_cut=False)
    log = replica.log("orders")
    assert (log.high_watermark, read_all(log), log.log_end_offset) == (0, b"", 5)


def test_it_is_never_below_the_log_start(replica: Replica) -> None:
    log = five_of_which_three_are_confirmed(replica)
    log.advance_log_start(2)
    replica.checkpoint()
    replica.disk.remove(FILE)
    replica.restart(power_cut=False)
    assert (replica.log("orders").log_start_offset, replica.log("orders").high_watermark) == (2, 2)


def test_it_is_written_between_checkpoints_if_it_moved(replica: Replica) -> None:
    log = five_of_which_three_are_confirmed(replica)
    replica.checkpoint()
    log.advance_high_watermark(4)
    checkpointing = replica.workers["semel-checkpoint"]
    replica.directory.checkpoint_if_due()
    checkpointing.step()
    assert replica.stored() == 4
    log.advance_high_watermark(5)
    replica.directory.checkpoint_if_due()
    assert checkpointing.jobs == [], "not more often than every five seconds"
    replica.clock.advance(HIGH_WATERMARK_INTERVAL_MS)
    replica.directory.checkpoint_if_due()
    checkpointing.step()
    assert replica.stored() == 5
    replica.clock.advance(HIGH_WATERMARK_INTERVAL_MS)
    replica.directory.checkpoint_if_due()
    assert checkpointing.jobs == [], "it has not moved"


def test_of_records_that_the_disk_has_lost_nothing_counts_as_confirmed_later(replica: Replica) -> None:
    """With flush=os a power cut takes records that were confirmed. Others may come to their offsets."""
    log = replica.create("clicks")
    for number in range(5):
        append(log, batch(f"value {number}"))
    log.advance_high_watermark(5)
    replica.directory._checkpointer.write_high_watermarks()
    replica.directory.kill()
    replica.disk.crash(Unsynced.LOST)
    replica.directory = replica.open()
    log = replica.log("clicks")
    assert (log.high_watermark, log.log_end_offset) == (0, 0)
    log.on_durable = _nothing
    append(log, batch("another", "and another"))
    replica.restart(power_cut=False)
    assert (replica.log("clicks").high_watermark, replica.log("clicks").log_end_offset) == (0, 2)


def test_a_topic_made_again_under_the_name_begins_without_it(replica: Replica) -> None:
    five_of_which_three_are_confirmed(replica)
    replica.checkpoint()
    replica.topics["orders"] = replace(replica.topics["orders"], topic_id=UUID(int=99))
    replica.directory.change(lambda _: None, deleted=[ORDERS], settled=True, wanted={ORDERS: replica.topics["orders"]})
    replica.workers["semel-folders"].step()
    log = replica.log("orders")
    log.on_durable = _nothing
    append(log, batch("not confirmed"))
    replica.commit()
    replica.restart(power_cut=True)
    assert (replica.log("orders").high_watermark, replica.log("orders").log_end_offset) == (0, 1)


def test_a_topic_that_was_made_again_while_the_broker_was_down_begins_empty(replica: Replica) -> None:
    """The others have deleted it and made it again; the files here are still of the former one."""
    log = five_of_which_three_are_confirmed(replica)
    log.advance_log_start(1)
    replica.checkpoint()
    replica.topics["orders"] = TopicLogs(UUID(int=99), LogConfig(), synced=True, replicated=frozenset({0}))
    replica.restart(power_cut=False)
    assert replica.directory.unavailable == {}
    log = replica.log("orders")
    assert (log.topic_id, log.log_start_offset, log.high_watermark, log.log_end_offset) == (UUID(int=99), 0, 0, 0)


@pytest.mark.parametrize("committed", [False, True])
def test_a_transaction_whose_marker_is_not_confirmed_holds_back_readers_after_a_start(
    replica: Replica, committed: bool
) -> None:
    """The snapshot at the recovery point knows nothing of it: it has ended."""
    log = replica.create("orders")
    append(log, batch("before"))
    append(log, produced(0, "in the transaction", transactional=True))
    append(log, batch("between"))
    end_transaction(log, committed=committed)
    append(log, batch("after"))
    replica.commit()
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 1
    replica.checkpoint()
    assert log.recovery_point == 5
    replica.restart(power_cut=False)
    log = replica.log("orders")
    assert (log.high_watermark, log.last_stable_offset, committed_values(log)) == (3, 1, [(0, b"before")])
    log.advance_high_watermark(5)
    assert log.last_stable_offset == 5
