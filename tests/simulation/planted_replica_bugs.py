"""Bugs for the replicas of partitions: each function plants one, as a sound broker is built without it."""

from __future__ import annotations

from typing import Any

import pytest

from semel.broker import broker
from semel.broker.coordinators.shard_loading import ShardLoading
from semel.broker.partitions.partitions import Partition
from semel.broker.replication import elections, follower_sessions, in_sync_changes
from semel.broker.replication.copier import Copier
from semel.broker.replication.in_sync_changes import InSyncChanges
from semel.broker.replication.replicas import Replicas
from semel.errors import StorageError
from semel.log.partition_log import PartitionLog
from semel.metadata import election
from semel.metadata.controller import MetadataDecision
from semel.replication.replica_set import ReplicaSet
from tests.simulation.planted_cluster_bugs import Plant

__all__ = ["Plant"]


# -- what is acknowledged


def counts_the_smaller_set(patch: pytest.MonkeyPatch) -> None:
    """Scenario 59: a follower whose removal is proposed is not waited for."""

    def count(self: Any) -> None:
        self._maximal_isr = self._isr if self._proposed is None else self._isr & self._proposed
        self._counted = [follower for replica, follower in self._followers.items() if replica in self._maximal_isr]

    patch.setattr(ReplicaSet, "_count_members", count)


def counts_the_committed_set(patch: pytest.MonkeyPatch) -> None:
    """Scenario 59: a follower that is in sync is not waited for before the leader knows that it is."""

    def count(self: Any) -> None:
        self._maximal_isr = self._isr
        self._counted = [follower for replica, follower in self._followers.items() if replica in self._maximal_isr]

    patch.setattr(ReplicaSet, "_count_members", count)


def takes_no_answer_of_the_store_for_a_refusal(patch: pytest.MonkeyPatch) -> None:
    """Scenario 59: the proposal was carried out, and its answer is lost."""
    sound = InSyncChanges._commit_some

    async def commit_some(self: Any) -> None:
        cluster = self._node.cluster

        async def change(decide: Any) -> Any:
            try:
                return await type(cluster).change(cluster, decide)
            except StorageError:
                return MetadataDecision((), ())

        cluster.change = change
        try:
            await sound(self)
        finally:
            del cluster.change

    patch.setattr(InSyncChanges, "_commit_some", commit_some)


def says_that_it_has_what_it_has_not_synced(patch: pytest.MonkeyPatch) -> None:
    """Scenario 59: a follower's Fetch acknowledges what a power cut takes."""

    def send_soon(self: Any) -> None:
        self._unsynced.clear()
        if self._scheduled is None and not self._is_closed:
            self._scheduled = self._loop.call_soon(self._send)

    patch.setattr(Copier, "_send_soon", send_soon)


def counts_a_follower_whose_log_diverges(patch: pytest.MonkeyPatch) -> None:
    """Scenario 61: it has other records there."""
    sound = follower_sessions._Target.take

    def take(self: Any, asked: Any, now_ms: float) -> None:
        sound(self, asked, now_ms)
        if self.partition is not None and asked.fetch_offset <= self.partition.log.log_end_offset:
            self.partition.fetched(
                self.session.replica, asked.fetch_offset, broker_epoch=self.session.broker_epoch, now_ms=now_ms
            )

    patch.setattr(follower_sessions._Target, "take", take)


def takes_records_with_too_few_in_sync(patch: pytest.MonkeyPatch) -> None:
    """Scenario 58."""
    patch.setattr(Partition, "check_enough_replicas", lambda self: None)


# -- who joins


def lets_a_follower_join_before_the_beginning_of_the_term(patch: pytest.MonkeyPatch) -> None:
    """Scenario 60: the high watermark of a new leader may be behind what was acknowledged."""
    sound = ReplicaSet.proposal

    def proposal(self: Any, *args: Any, **more: Any) -> Any:
        start, self._epoch_start_offset = self._epoch_start_offset, 0
        try:
            return sound(self, *args, **more)
        finally:
            self._epoch_start_offset = start

    patch.setattr(ReplicaSet, "proposal", proposal)


def lets_a_broker_join_by_a_fetch_of_its_predecessor(patch: pytest.MonkeyPatch) -> None:
    """Scenario 66: it is registered, and what was fetched was fetched to another disk."""
    _lets_a_follower_join_with_what_it_had_when_it_left(patch)
    sound = ReplicaSet.proposal

    def proposal(self: Any, now_ms: float, *, lag_max_ms: float, broker_epochs: Any) -> Any:
        fetched = {
            replica: self._followers[replica].broker_epoch for replica in broker_epochs if replica in self._followers
        }
        return sound(self, now_ms, lag_max_ms=lag_max_ms, broker_epochs=fetched)

    patch.setattr(ReplicaSet, "proposal", proposal)


def _lets_a_follower_join_with_what_it_had_when_it_left(patch: pytest.MonkeyPatch) -> None:
    """Takes away a second guard, which alone prevents the two bugs beside this one."""
    sound = ReplicaSet.isr_changed

    def isr_changed(self: Any, isr: Any) -> bool:
        fetched = {follower: follower.broker_epoch for follower in self._followers.values()}
        moved = sound(self, isr)
        for follower, broker_epoch in fetched.items():
            follower.broker_epoch = broker_epoch
        return moved

    patch.setattr(ReplicaSet, "isr_changed", isr_changed)


def lets_a_broker_join_that_is_gone(patch: pytest.MonkeyPatch) -> None:
    """Its registration is not looked at, neither by the proposal nor by the commit."""
    _lets_a_follower_join_with_what_it_had_when_it_left(patch)
    sound, sound_decide = ReplicaSet.proposal, in_sync_changes._decide

    def proposal(self: Any, now_ms: float, *, lag_max_ms: float, broker_epochs: Any) -> Any:
        fetched = {replica: follower.broker_epoch for replica, follower in self._followers.items()}
        return sound(self, now_ms, lag_max_ms=lag_max_ms, broker_epochs=fetched)

    class All(dict[int, Any]):
        def __contains__(self, key: object) -> bool:
            return True

        def __missing__(self, key: int) -> Any:
            return _Registered

    class _Registered:
        epoch = -1

    def decide(image: Any, proposals: Any, node_id: int) -> Any:
        class Image:
            brokers = All()
            topics = image.topics
            partition = staticmethod(image.partition)

        free = [one._replace(broker_epochs=dict.fromkeys(one.isr, -1)) for one in proposals]
        decided = sound_decide(Image, free, node_id)  # type: ignore[arg-type]
        return MetadataDecision(decided.changes, decided.results)

    patch.setattr(ReplicaSet, "proposal", proposal)
    patch.setattr(in_sync_changes, "_decide", decide)


def commits_a_join_without_a_check_of_the_registration(patch: pytest.MonkeyPatch) -> None:
    """Scenario 66: the broker has lost its disk and registered again between the decision and the commit."""
    sound = in_sync_changes._decide

    def decide(*args: Any) -> Any:
        decided = sound(*args)
        return MetadataDecision(decided.changes, decided.results)

    patch.setattr(in_sync_changes, "_decide", decide)


def keeps_its_place_without_its_disk(patch: pytest.MonkeyPatch) -> None:
    """Scenarios 64 and 66."""
    patch.setattr(broker, "lost_replicas", lambda *args: frozenset())


# -- who leads, and with which log


def elects_a_replica_that_is_not_in_sync(patch: pytest.MonkeyPatch) -> None:
    """Scenario 63."""

    def elect(image: Any, *, partitions_max: int | None = None) -> Any:
        def elected(_topic: Any, _partition: int, state: Any) -> Any:
            registered = election._registered(image, state.replicas)
            if not registered:
                return state
            leader = state.leader if state.leader in image.brokers else election._first(state, registered)
            return election._with(state, leader, election._registered(image, state.isr) or registered[:1])

        return election._altered(image, elected, partitions_max)

    patch.setattr(elections, "elect", elect)


def truncates_to_its_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """Scenario 61: a follower that learns of a new leader drops what it does not know to be committed."""
    sound = Replicas.follow

    def follow(self: Any, log: PartitionLog, state: Any) -> None:
        known = self._followed.get(log.topic_partition)
        is_new_term = known is None or known.leader_epoch != state.leader_epoch
        sound(self, log, state)
        followed = self._followed.get(log.topic_partition)
        if is_new_term and followed is not None and log.high_watermark < log.log_end_offset:
            followed.copier._truncate[followed] = log.high_watermark
            followed.copier._change_logs()

    patch.setattr(Replicas, "follow", follow)


def enters_an_epoch_without_a_batch_of_it(patch: pytest.MonkeyPatch) -> None:
    """Scenario 61: its log claims to be the new leader's up to its end, and is not truncated."""
    sound = Replicas.follow

    def follow(self: Any, log: PartitionLog, state: Any) -> None:
        log.set_leader_epoch(state.leader_epoch)
        sound(self, log, state)

    patch.setattr(Replicas, "follow", follow)
    patch.setattr(PartitionLog, "follow", lambda self: None)


def leads_with_a_log_that_is_being_truncated(patch: pytest.MonkeyPatch) -> None:
    """Scenario 61."""
    patch.setattr(Replicas, "is_changing", lambda self, topic_partition: False)


def tells_ends_before_it_knows_them(patch: pytest.MonkeyPatch) -> None:
    """Scenario 65: the high watermark of a new leader is older than the one that was told."""
    patch.setattr(ReplicaSet, "is_settled", property(lambda self: True))


# -- coordinators


def tells_what_no_other_broker_has_confirmed(patch: pytest.MonkeyPatch) -> None:
    """Scenario 62: a coordinator that was paused tells what it remembers."""
    patch.setattr(Partition, "when_confirmed", lambda self, operation, token: False)


def takes_a_fetch_that_was_under_way_for_a_reply(patch: pytest.MonkeyPatch) -> None:
    """Scenario 36: it was sent before the question."""
    sound = follower_sessions._Session._replied
    patch.setattr(follower_sessions._Session, "_replied", lambda self, *, to_last: sound(self, to_last=True))


def serves_before_it_has_replayed_to_the_end(patch: pytest.MonkeyPatch) -> None:
    """Scenario 36: what lies above the high watermark may be acknowledged."""
    patch.setattr(ShardLoading, "begin", lambda self: self.committed(None))
