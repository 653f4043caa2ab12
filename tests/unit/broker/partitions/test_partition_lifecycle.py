"""Logs follow the image: a worker makes and deletes them, the loop touches no file, and a name is free only when its
former logs are gone."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from semel.broker.config.broker_config import BrokerConfig
from semel.broker.network.answer_cache import AnswerCache
from semel.broker.node import Node
from semel.broker.partitions.partition_lifecycle import LOGS_PER_TURN, PartitionLifecycle
from semel.broker.partitions.partitions import LedPartitions
from semel.broker.turns import Turns
from semel.log.directory import LogDirectory
from semel.log.durability.checkpoints import MetaProperties
from semel.metadata.controller import MetadataDecision
from semel.metadata.image import (
    Change,
    ClusterImage,
    PartitionState,
    Topic,
    TopicAltered,
    TopicCreated,
    TopicDeleted,
)
from semel.testing.virtual.clock import ManualClock
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.disk_faults import DiskFault, Operation
from semel.testing.virtual.loop import VirtualLoop
from semel.types import TopicPartition
from tests.logs import NOW_MS, StepWorker, append, batch

MANY = 3 * LOGS_PER_TURN + 7
LED = PartitionState(replicas=(1,), isr=(1,), leader=1, leader_epoch=0)


def topic(name: str, partitions: int, number: int = 1, **configs: str) -> Topic:
    configs = {key.replace("_", "."): value for key, value in configs.items()}
    return Topic(name=name, id=UUID(int=number), partitions=(LED,) * partitions, configs=configs)


class Bench:
    """A node of which only what PartitionLifecycle needs is there. Its workers work when told."""

    def __init__(self) -> None:
        self.disk = VirtualDisk()
        self.loop = VirtualLoop()
        self.clock = ManualClock(NOW_MS)
        self.workers: dict[str, StepWorker] = {}
        self.node: Any = SimpleNamespace(
            config=BrokerConfig.load(overrides={"log.dirs": "/data"}),
            answers=AnswerCache(),
            clock=self.clock,
            turns=Turns(self.clock),
            partitions=LedPartitions(self.loop),
            logs=LogDirectory(
                "/data",
                disk=self.disk,
                clock=self.clock,
                loop=self.loop,
                make_worker=lambda name: self.workers.setdefault(name, StepWorker()),
            ),
            cleaner=None,
            replicas=None,
            deleting=Counter(),
            is_member=True,
            image=ClusterImage("cluster"),
        )
        self.node.logs.acquire(MetaProperties("cluster", 1))
        self.node.logs.load({})
        self.lifecycle = PartitionLifecycle(cast(Node, self.node), self.loop)
        self.folders = self.workers["semel-folders"]

    def commit(self, *changes: Change) -> None:
        before = self.node.image
        self.node.image = before.apply(changes)
        self.lifecycle.changed(before, self.node.image, changes)

    def turn(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(0))

    def settle(self) -> int:
        """Let the worker and the loop do everything. Returns how many jobs that took the worker."""
        done = 0
        self.turn()
        while self.folders.jobs:
            self.folders.step()
            self.turn()
            done += 1
        return done

    def led(self, name: str) -> list[int]:
        return [partition.partition for partition, _ in sorted(self._served()) if partition.topic == name]

    def _served(self) -> list[tuple[TopicPartition, int]]:
        return [(partition.topic_partition, partition.leader_epoch) for partition in self.node.partitions]

    def is_settled(self) -> bool:
        waiting: asyncio.Task[None] = self.loop.create_task(self.lifecycle.settled())
        self.turn()
        return waiting.done()

    def names(self) -> list[str]:
        return [name for name in self.disk.list("/data") if name.rpartition("-")[2][:1].isdigit() or "delete" in name]


# Making


def test_the_loop_makes_no_file_and_serves_what_the_worker_has_made() -> None:
    bench = Bench()
    bench.commit(TopicCreated(topic("new", 3)))
    bench.turn()
    assert (bench.names(), bench.led("new"), bench.is_settled()) == ([], [], False)
    bench.folders.work()
    assert bench.names() == ["new-0", "new-1", "new-2"]
    assert (bench.led("new"), bench.is_settled()) == ([], False), "the loop has not heard of it"
    bench.folders.tell()
    assert (bench.led("new"), bench.is_settled()) == ([0, 1, 2], True)


def test_a_wide_topic_is_made_in_batches() -> None:
    bench = Bench()
    bench.commit(TopicCreated(topic("wide", MANY)))
    assert bench.settle() == 4
    assert bench.led("wide") == list(range(MANY))
    assert bench.node.turns.most_elements == LOGS_PER_TURN


def test_many_topics_are_made_in_few_batches() -> None:
    bench = Bench()
    bench.commit(*(TopicCreated(topic(f"one-{number}", 1, number)) for number in range(1, LOGS_PER_TURN + 1)))
    assert bench.settle() == 1
    assert len(bench.node.partitions) == LOGS_PER_TURN


def test_a_log_that_cannot_be_made_is_unavailable_and_the_others_of_its_topic_are_served() -> None:
    bench = Bench()
    bench.disk.fail(DiskFault(Operation.MAKE_FOLDER, "*/new-1", errno.EIO))
    bench.commit(TopicCreated(topic("new", 3)))
    bench.settle()
    assert bench.led("new") == [0, 2]
    assert "could not be made" in bench.node.partitions.unavailable["new", 1]
    bench.lifecycle.open_unavailable()
    assert bench.led("new") == [0, 2], "the loop touches no file"
    bench.settle()
    assert (bench.led("new"), bench.node.partitions.unavailable) == ([0, 1, 2], {})


def test_a_log_that_finds_no_room_is_unavailable_and_counted_as_refused(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.disk.fail(DiskFault(Operation.MAKE_FOLDER, "*", errno.ENOSPC, times=2))
    bench.commit(TopicCreated(topic("new", 2)))
    bench.settle()
    assert (bench.led("new"), bench.node.logs.refusals.count) == ([], 2)
    assert sorted(bench.node.partitions.unavailable) == [("new", 0), ("new", 1)]
    assert [record.levelno for record in caplog.records] == [logging.ERROR], "one line a minute"


def test_a_worker_that_fails_as_no_disk_does_leaves_the_partitions_unavailable_and_the_line_moves_on() -> None:
    bench = Bench()
    bench.commit(TopicCreated(topic("new", 2)))
    bench.commit(TopicCreated(topic("next", 1, number=2)))
    bench.folders.error = MemoryError("no memory")
    bench.settle()
    assert (bench.led("new"), bench.led("next"), bench.is_settled()) == ([], [0], True)
    assert "no memory" in bench.node.partitions.unavailable["new", 0]


# What the image says when the log is there


def test_a_term_that_has_ended_while_the_log_was_made_does_not_begin() -> None:
    bench = Bench()
    made = topic("moved", 2)
    bench.commit(TopicCreated(made))
    bench.folders.work()
    elsewhere = replace(LED, replicas=(1, 2), leader=2, leader_epoch=1)
    bench.commit(TopicAltered(replace(made, partitions=(elsewhere, replace(LED, leader_epoch=5)))))
    bench.folders.tell()
    bench.settle()
    assert bench._served() == [(TopicPartition("moved", 1), 5)]
    assert bench.node.logs.logs[TopicPartition("moved", 1)].leader_epoch == 5
    assert TopicPartition("moved", 0) in bench.node.logs.logs, "it is kept, and not led"


def test_a_broker_that_is_no_member_any_more_leads_nothing_of_what_was_made() -> None:
    bench = Bench()
    bench.commit(TopicCreated(topic("new", 2)))
    bench.folders.work()
    bench.node.is_member = False
    bench.lifecycle.resign_all()
    bench.folders.tell()
    assert bench.led("new") == []
    bench.node.is_member = True
    bench.lifecycle.lead_all()
    assert (bench.led("new"), bench.folders.jobs) == ([0, 1], []), "no file had to be made"


def test_settings_that_were_altered_while_the_log_was_made_are_those_of_the_log() -> None:
    bench = Bench()
    made = topic("new", 2)
    bench.commit(TopicCreated(made))
    bench.folders.work()
    bench.commit(TopicAltered(replace(made, configs={"retention.ms": "77"})))
    bench.folders.tell()
    assert [log.config.retention_ms for log in bench.node.logs.logs.values()] == [77, 77]


def test_partitions_that_were_added_while_the_first_were_made_are_made_after_them() -> None:
    bench = Bench()
    bench.commit(TopicCreated(topic("new", 2)))
    bench.commit(TopicAltered(topic("new", 4)))
    bench.settle()
    assert bench.led("new") == [0, 1, 2, 3]


def test_a_topic_that_was_deleted_while_its_logs_were_made_is_not_served_and_leaves_nothing() -> None:
    bench = Bench()
    gone = topic("gone", MANY)
    bench.commit(TopicCreated(gone))
    bench.folders.work()
    bench.commit(TopicDeleted(gone))
    bench.folders.tell()
    assert bench.led("gone") == []
    bench.settle()
    assert (bench.node.logs.logs, bench.node.deleting, bench.is_settled()) == ({}, Counter(), True)
    assert not [name for name in bench.names() if name.startswith("gone")]


def test_another_broker_deletes_a_topic_and_makes_it_again_while_its_logs_are_made() -> None:
    """This broker learns of both at once; the records of the first must not be those of the second."""
    bench = Bench()
    first, second = topic("again", 2), topic("again", 2, number=2)
    bench.commit(TopicCreated(first))
    bench.folders.work()
    bench.commit(TopicDeleted(first), TopicCreated(second))
    bench.folders.tell()
    bench.settle()
    assert bench.led("again") == [0, 1]
    assert {log.topic_id for log in bench.node.logs.logs.values()} == {second.id}


def test_another_broker_deletes_a_topic_with_records_and_makes_it_again() -> None:
    bench = Bench()
    first, second = topic("again", 1), topic("again", 1, number=2)
    bench.commit(TopicCreated(first))
    bench.settle()
    append(bench.node.partitions.get("again", 0).log, batch("of the first"))
    bench.commit(TopicDeleted(first), TopicCreated(second))
    bench.settle()
    log = bench.node.partitions.get("again", 0).log
    assert (log.topic_id, log.log_end_offset) == (second.id, 0)


# Deleting


def test_the_logs_of_a_topic_that_was_deleted_go_in_batches() -> None:
    bench = Bench()
    wide = topic("wide", MANY)
    bench.commit(TopicCreated(wide))
    bench.settle()
    bench.commit(TopicDeleted(wide))
    assert bench.led("wide") == [], "from now on none of them is served"
    assert len(bench.names()) == MANY, "the loop touches no file"
    assert (bench.node.deleting, bench.is_settled()) == ({"wide": 1}, False)
    assert bench.settle() == 4
    assert (bench.node.deleting, bench.is_settled()) == ({}, True)
    assert not [name for name in bench.names() if not name.endswith("-delete")]
    bench.workers["semel-checkpoint"].stop()
    assert bench.names() == []


def test_a_slow_turn_ends_sooner() -> None:
    bench = Bench()
    bench.commit(TopicCreated(topic("wide", 10)))
    bench.settle()
    bench.clock.monotonic_ms = iter(range(0, 1000, 2)).__next__  # type: ignore[method-assign]
    bench.commit(TopicDeleted(topic("wide", 10)))
    assert len(bench.node.logs.logs) == 8


def test_two_topics_go_in_one_batch_and_the_checkpoint_files_are_written_once() -> None:
    bench = Bench()
    made = [topic("a", 2), topic("b", 2, number=2)]
    bench.commit(*map(TopicCreated, made))
    bench.settle()
    before = bench.disk.statistics.directory_syncs
    bench.commit(*map(TopicDeleted, made))
    assert bench.node.deleting == {"a": 1, "b": 1}
    assert bench.settle() == 1
    assert not bench.node.deleting
    once = bench.disk.statistics.directory_syncs - before
    bench.commit(TopicCreated(topic("c", 1, number=3)))
    bench.settle()
    before = bench.disk.statistics.directory_syncs
    bench.commit(TopicDeleted(topic("c", 1, number=3)))
    bench.settle()
    assert bench.disk.statistics.directory_syncs - before <= once


def test_a_power_cut_after_a_topic_was_deleted_does_not_bring_its_name_back() -> None:
    bench = Bench()
    gone = topic("gone", 2)
    bench.commit(TopicCreated(gone))
    bench.settle()
    bench.disk.sync_all("/data")
    bench.commit(TopicDeleted(gone))
    bench.settle()
    assert not bench.node.deleting, "from now on a topic of this name may be in the metadata"
    bench.disk.crash()
    assert not [name for name in bench.names() if name.startswith("gone")]


@pytest.mark.parametrize("name", ["again", "other"])
def test_a_topic_is_made_when_the_logs_of_a_former_one_of_its_name_are_gone(name: str) -> None:
    """Until then the metadata does not know it: after a crash the old folders would have the new topic's name."""
    node: Any = SimpleNamespace(deleting=Counter({"again": 1}))
    committed: list[bool] = []

    async def settled() -> None:
        node.deleting.clear()

    async def change(decide: Callable[[Any], MetadataDecision[str]]) -> MetadataDecision[str]:
        decision = decide(None)
        committed.append("again" in node.deleting)
        return decision

    node.settled, node.cluster = settled, SimpleNamespace(change=change, outgrows_commits=lambda _: False)
    node._decide = lambda decide, image: Node._decide(node, decide, image)
    decision = MetadataDecision((TopicCreated(topic(name, 1)),), ("made",))
    results = asyncio.run(Node.change(node, lambda image: decision, unstored=lambda refusal: []))
    assert results == ("made",)
    assert committed == [name == "other"], "another name need not wait"


def test_after_the_broker_was_killed_nothing_is_begun() -> None:
    bench = Bench()
    bench.commit(TopicCreated(topic("wide", MANY)))
    bench.folders.work()
    bench.lifecycle.close()
    bench.node.logs.kill()
    bench.folders.tell()
    bench.turn()
    assert (bench.led("wide"), bench.folders.jobs) == ([], [])
