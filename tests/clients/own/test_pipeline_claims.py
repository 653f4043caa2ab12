"""The claim of a pipeline on its group, with the requests that a pipeline sends and without Spark."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from semel.blocking import Admin
from semel.client.values import OffsetAndMetadata
from semel.errors import ProducerFenced
from semel.spark.claim import Claim
from semel.spark.cluster import Cluster
from semel.spark.decision import Note, SourcePartition
from semel.spark.errors import PipelineError, Superseded
from semel.types import TopicPartition
from tools.patience import PATIENCE_S, wait_until
from tools.server import Server

_numbers = itertools.count()


class Driver:
    """A pipeline's driver as far as its claim goes: it claims, reads the group's offset and moves it on."""

    def __init__(self, servers: str, name: str, group_id: str, topic: str, timeout_ms: int) -> None:
        self.name = name
        self.partition = SourcePartition(group_id, TopicPartition(topic, 0))
        self.cluster = Cluster(bootstrap_servers=servers)
        own = {"transactional_id": f"{group_id}-{name}", "transaction_timeout_ms": timeout_ms}
        self.claim = Claim.take({"bootstrap_servers": servers, **own}, [group_id])
        self.committed: dict[SourcePartition, OffsetAndMetadata] = {}

    def read(self) -> int:
        found = self.cluster.committed(self.partition.group_id, [self.partition.topic_partition])
        self.committed = {SourcePartition(self.partition.group_id, tp): at for tp, at in found.items()}
        return self.at

    @property
    def at(self) -> int:
        return self.committed[self.partition].offset if self.committed else 0

    @property
    def next(self) -> dict[SourcePartition, OffsetAndMetadata]:
        note = Note("query", 0, owner=f"{self.partition.group_id}-{self.name}")
        return {self.partition: OffsetAndMetadata(self.at + 10, str(note))}

    def commit(self) -> None:
        offsets = self.next
        with self.claim.producer.transaction():
            self.claim.send_offsets(offsets, self.committed, self.cluster)
        self.committed = offsets

    def close(self) -> None:
        self.claim.close(timeout_ms=0)
        self.cluster.close()


@pytest.fixture
def driver(cluster: Server, topic: str) -> Iterator[Callable[..., Driver]]:
    """A function that starts a driver. All of a test share a group, and none its transactional id."""
    group_id = f"claimed-{next(_numbers)}"
    started: list[Driver] = []

    def start(name: str, *, timeout_ms: int = 60_000) -> Driver:
        started.append(Driver(cluster.bootstrap_servers, name, group_id, topic, timeout_ms))
        return started[-1]

    yield start
    for one in started:
        one.close()


def test_the_later_of_two_pipelines_goes_on_and_the_other_is_told_which_it_is(driver: Callable[..., Driver]) -> None:
    older = driver("older")
    older.read()
    older.commit()
    newer = driver("newer")
    assert newer.read() == 10
    newer.commit()
    with pytest.raises(Superseded, match=r"transactional id 'claimed-[0-9]+-newer' has taken over"):
        older.commit()
    newer.commit()
    older = driver("older")
    assert older.read() == 30
    older.commit()
    with pytest.raises(Superseded, match="has taken over group 'claimed"):
        newer.commit()


def test_a_claim_after_the_check_waits_for_the_commit_that_it_allowed(driver: Callable[..., Driver]) -> None:
    older = driver("older")
    older.read()
    older.claim.producer.begin()
    older.claim.send_offsets(older.next, older.committed, older.cluster)
    newer = driver("newer")
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(newer.read)
        older.claim.producer.commit()
        assert reading.result(PATIENCE_S) == 10


def test_a_claim_before_the_check_stops_the_commit_although_its_offsets_are_pending(
    driver: Callable[..., Driver],
) -> None:
    older = driver("older")
    older.read()
    older.claim.producer.begin()
    older.claim.producer.send_offsets({older.partition.topic_partition: 10}, older.partition.group_id)
    newer = driver("newer")
    with pytest.raises(Superseded):
        older.claim.send_offsets(older.next, older.committed, older.cluster)
    older.claim.producer.abort()
    assert newer.read() == 0
    newer.commit()
    assert newer.read() == 10


def test_a_commit_of_something_that_is_no_pipeline_is_noticed_by_the_next_batch(
    cluster: Server, driver: Callable[..., Driver]
) -> None:
    only = driver("only")
    only.read()
    only.commit()
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.groups.alter_offsets(only.partition.group_id, {only.partition.topic_partition: 3}).all()
    with pytest.raises(PipelineError, match="was at 10 and is at 3 now: a consumer or a tool that is no pipeline"):
        only.commit()
    assert only.read() == 3


def test_a_transaction_that_took_too_long_is_tried_again_with_more_time_unless_another_has_taken_over(
    cluster: Server, driver: Callable[..., Driver]
) -> None:
    slow = driver("slow", timeout_ms=500)
    slow.read()

    def outlive() -> None:
        slow.claim.producer.begin()
        slow.claim.producer.send_offsets({slow.partition.topic_partition: 10}, slow.partition.group_id)
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            name = f"{slow.partition.group_id}-slow"
            wait_until(lambda: admin.transactions.describe(name).state == "CompleteAbort")
        with pytest.raises(ProducerFenced):
            slow.claim.producer.send_offsets({slow.partition.topic_partition: 10}, slow.partition.group_id)

    outlive()
    assert slow.claim.transaction_timeout_ms == 500
    slow.claim.renew(700, slow.cluster)
    assert slow.claim.transaction_timeout_ms == 700
    outlive()
    slow.claim.renew(60_000, slow.cluster)
    slow.commit()
    assert slow.read() == 10
    driver("newer")
    with pytest.raises(Superseded):
        slow.claim.renew(60_000, slow.cluster)
