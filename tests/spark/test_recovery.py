"""Checkpoints that do not fit their group's offsets: gone on from, refused at the start, or recovered when told.

A start needs no Spark: the checkpoints are written here, as Spark writes them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from semel.blocking import Admin
from semel.client.values import OffsetAndMetadata
from semel.spark import Refused
from semel.spark.checkpoint import Checkpoint
from semel.spark.cluster import Cluster
from semel.spark.decision import Note
from semel.spark.plan import QueryPlan
from semel.spark.sink.sink import Sink, no_step_hook
from semel.spark.source.options import SourceOptions
from semel.spark.starting import Start
from semel.testing import Broker
from tests.spark.test_check import is_known
from tests.spark.topics import create, group_offsets

_DAY_S = 24 * 3600


class Folder(Checkpoint):
    """A checkpoint in a folder, read without Spark."""

    def _read(self, name: str) -> str | None:
        path = Path(self.location, name)
        return path.read_text() if path.exists() else None

    def _modified_ms(self, name: str) -> int:
        return int(Path(self.location, name).stat().st_mtime * 1000)

    def _names(self, folder: str) -> list[str]:
        path = Path(self.location, folder)
        return [file.name for file in path.iterdir()] if path.exists() else []


class Job:
    """A copy of the topic "in", two partitions, under group "jobs"."""

    def __init__(
        self,
        broker: Broker,
        folder: Path,
        topics: str = "in",
        *,
        option: str = "subscribe",
        is_stateful: bool = False,
        **said: str,
    ) -> None:
        servers = broker.bootstrap_servers
        options = {"kafka.bootstrap.servers": servers, "kafka.group.id": "jobs", option: topics, **said}
        options["startingOffsets"] = "earliest"
        self.broker = broker
        self.folder = folder
        self.checkpoint = Folder(str(folder))
        sink = Sink(
            {"bootstrap_servers": servers, "transactional_id": "jobs", "transaction_timeout_ms": 60_000},
            "out",
            None,
            None,
            no_step_hook,
        )
        plan = QueryPlan((SourceOptions.parse(options, is_streaming=True),), (), is_stateful)
        self.start = Start(plan, sink, str(folder), ["value"], 1, None, 1)

    def begin(self) -> None:
        self.start.begin(self.checkpoint).close(timeout_ms=0)

    def check(self) -> None:
        with Cluster(bootstrap_servers=self.broker.bootstrap_servers) as cluster:
            self.start.check(cluster, self.checkpoint)

    def refusal(self) -> str:
        """What check and begin both say. Nothing is touched."""
        with pytest.raises(Refused) as by_check:
            self.check()
        with pytest.raises(Refused) as by_start:
            self.begin()
        assert str(by_check.value) == str(by_start.value)
        return str(by_check.value)

    @property
    def offsets(self) -> dict[int, int]:
        return group_offsets(self.broker, "jobs", "in")


@pytest.fixture
def job(broker: Broker, tmp_path: Path) -> Job:
    create(broker, "in", "out")
    return Job(broker, tmp_path / "checkpoint")


def plan(folder: Path, ends: Sequence[Mapping[str, int]], *, done: int, age_s: float = 0) -> None:
    """Batches of which ``done`` are noted as done, the last one planned so long ago."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "metadata").write_text(json.dumps({"id": "the-query"}))
    for number, end in enumerate(ends):
        path = folder / "offsets" / str(number)
        path.write_text(f"v1\n{{}}\n{json.dumps({'in': end})}")
        os.utime(path, (time.time() - age_s,) * 2)
        if number < done:
            (folder / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')


ENDS = [{"0": 4, "1": 4}, {"0": 10, "1": 8}]


def commit(job: Job, *, batch: int, query: str = "the-query", at: Mapping[str, int], topic: str = "in") -> None:
    """As if the pipeline had committed a batch."""
    note = str(Note(query, batch, owner="jobs"))
    with Admin(bootstrap_servers=job.broker.bootstrap_servers) as admin:
        admin.groups.alter_offsets(
            "jobs", {(topic, int(index)): OffsetAndMetadata(offset, note) for index, offset in at.items()}
        ).all()


def test_expired_offsets_are_committed_again_by_a_start_if_spark_noted_the_last_batch_as_done(job: Job) -> None:
    plan(job.folder, ENDS, done=2, age_s=8 * _DAY_S)
    job.check()
    assert job.offsets == {}
    job.begin()
    assert job.offsets == {0: 10, 1: 8}
    job.begin()


def test_offsets_that_are_gone_in_the_middle_of_a_batch_are_set_as_the_user_says(job: Job) -> None:
    plan(job.folder, ENDS, done=1, age_s=8 * _DAY_S)
    refusal = job.refusal()
    assert "group 'jobs' has no offsets" in refusal
    assert "whether batch 1 was written is not known" in refusal
    assert "semel pipeline recover FILE" in refusal
    found = job.start.recover(job.checkpoint, is_written=None)
    assert "the output of up to 10 records is there twice" in found.last.if_not_written
    assert "its records are missing" in found.last.if_written
    assert job.offsets == {}
    assert not is_known(job.broker, "jobs")

    assert not job.start.recover(job.checkpoint, is_written=False).is_needed
    assert job.offsets == {0: 4, 1: 4}
    job.begin()
    assert not job.start.recover(job.checkpoint, is_written=True).is_needed
    assert job.offsets == {0: 10, 1: 8}
    job.begin()


def test_offsets_that_were_put_back_by_hand_are_taken_when_the_user_says_so(job: Job) -> None:
    plan(job.folder, ENDS, done=2)
    with Admin(bootstrap_servers=job.broker.bootstrap_servers) as admin:
        admin.groups.alter_offsets("jobs", {("in", 0): 10, ("in", 1): 8}).all()
    assert "committed by something that is no pipeline" in job.refusal()
    with pytest.raises(Refused, match="its commit log says that it is done"):
        job.start.recover(job.checkpoint, is_written=False)
    job.start.recover(job.checkpoint, is_written=True)
    job.begin()
    assert job.offsets == {0: 10, 1: 8}


def test_offsets_that_were_deleted_before_they_could_expire_are_not_guessed(job: Job) -> None:
    plan(job.folder, ENDS, done=2, age_s=3600)
    assert "Spark's commit log says that batch 1 was written" in job.refusal()


def test_an_older_copy_of_a_checkpoint_is_refused_at_the_start_and_a_new_location_goes_on(
    job: Job, tmp_path: Path
) -> None:
    plan(job.folder, ENDS, done=2)
    commit(job, batch=7, at={"0": 50, "1": 40})
    refusal = job.refusal()
    assert "the group is at 50, by batch 7 of this checkpoint: the checkpoint is an older copy" in refusal
    assert "give it a new checkpoint location" in refusal
    assert not is_known(job.broker, "jobs")
    Job(job.broker, tmp_path / "new").begin()
    assert job.offsets == {0: 50, 1: 40}


def test_a_checkpoint_that_is_newer_than_the_offsets_is_refused_at_the_start(job: Job) -> None:
    plan(job.folder, ENDS, done=2)
    commit(job, batch=0, at={"0": 4, "1": 4})
    assert "the group's offsets were set back" in job.refusal()
    job.start.recover(job.checkpoint, is_written=True)
    job.begin()
    assert job.offsets == {0: 10, 1: 8}


def test_a_checkpoint_of_another_query_is_refused_at_the_start(job: Job, broker: Broker) -> None:
    create(broker, "more")
    plan(job.folder, ENDS, done=2)
    commit(job, batch=3, query="another", at={"0": 9, "1": 8})
    assert "or it is another query's" in job.refusal()
    other = Job(broker, job.folder, "more")
    assert "is of a query that reads 'in', which this one does not" in other.refusal()
    (job.folder / "offsets" / "1").write_text("v1\n{}\n{}\n{}")
    assert "is of a query with 2 sources; this one has 1 (0)" in job.refusal()


@pytest.mark.parametrize("done", [1, 2])
def test_a_query_that_may_lose_data_goes_on_with_new_topics_although_all_that_it_had_read_were_deleted(
    broker: Broker, tmp_path: Path, done: int
) -> None:
    """The offsets of a group go with their topic, so there are none to compare."""
    create(broker, "in-2", "out")
    job = Job(broker, tmp_path / "checkpoint", "in.*", option="subscribePattern", failOnDataLoss="false")
    plan(job.folder, ENDS, done=done)
    job.begin()
    commit(job, batch=7, at={"0": 50}, topic="in-2")
    assert "the group has an offset of in-2-0 of group 'jobs', which this checkpoint does not know" in job.refusal()


def test_there_is_nothing_to_recover_before_the_first_batch(job: Job) -> None:
    with pytest.raises(Refused, match="has no batch yet"):
        job.start.recover(job.checkpoint, is_written=True)


def test_starting_offsets_beside_a_group_that_has_offsets_are_said_to_have_no_effect(
    job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    job.begin()
    assert "startingOffsets" not in caplog.text
    commit(job, batch=7, at={"0": 50, "1": 40})
    job.begin()
    (said,) = [message for message in caplog.messages if "startingOffsets" in message]
    assert said.startswith("startingOffsets has no effect: group 'jobs' has offsets already")
    assert "semel pipeline rewind FILE --to earliest, or rewind() of the pipeline" in said


def test_a_start_long_after_the_last_batch_warns_of_offsets_that_expire(
    job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    plan(job.folder, ENDS, done=2, age_s=5 * _DAY_S)
    commit(job, batch=1, at=ENDS[-1])
    job.begin()
    assert "raise offsets.retention.minutes" in caplog.text
