"""Bugs that brokers of a cluster could have: each is a change of one method.

Each breaks a scenario, or a rule of docs/design/cluster.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from semel.broker import broker
from semel.broker.cluster.connection_names import NewestConnections
from semel.broker.cluster.membership import Membership
from semel.broker.cluster.peers import Peers
from semel.broker.coordinators import remote_admission, remote_markers
from semel.broker.coordinators.markers import MarkerDelivery
from semel.broker.coordinators.reconciliation import Reconciliation
from semel.broker.partitions.transaction_gate import TransactionGate
from semel.broker.requests.handlers import add_partitions_to_txn, txn_offset_commit, write_txn_markers
from semel.coordinator.transaction.results import AddPartitionsResult
from semel.errors import ErrorCode
from semel.log.producers.producer_state import ProducerStates
from semel.metadata import producer_id_blocks
from semel.metadata.cluster import ClusterMetadata
from semel.metadata.controller import MetadataDecision
from semel.metadata.paths import LATEST_PRODUCER_ID_BLOCK
from semel.metadata.zookeeper.session import Create, Remove, SetData
from semel.metadata.zookeeper.store import ZooKeeperStore
from semel.metadata.zookeeper.znode_tree import ZnodeTree
from semel.types import TopicPartition

Plant: TypeAlias = Callable[[pytest.MonkeyPatch], None]


# -- the image and the store


def drops_the_marker_of_a_partition_that_its_image_lacks(patch: pytest.MonkeyPatch) -> None:
    """Scenario 38: the topic is too new for the image, and is taken for deleted."""
    patch.setattr(ClusterMetadata, "after_refresh", lambda self, then: then(True))


def takes_a_stale_read_for_a_fresh_one(patch: pytest.MonkeyPatch) -> None:
    """Scenario 38: the read is made, and its server is behind."""

    async def refresh(self: ZooKeeperStore) -> None:
        await self._retry_on_connection_loss(self._catch_up)

    patch.setattr(ZooKeeperStore, "_refresh", refresh)


def refuses_a_partition_that_its_image_lacks(patch: pytest.MonkeyPatch) -> None:
    """The leader that asks knows the partition; the coordinator's image is older."""
    sound = add_partitions_to_txn._add

    def add(node: Any, request: Any, transaction: Any, respond: Any) -> None:
        names = {topic.name for topic in transaction.topics}
        if names <= node.image.topics.keys():
            sound(node, request, transaction, respond)
            return
        errors = {
            TopicPartition(topic.name, index): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for topic in transaction.topics
            for index in topic.partitions
        }
        respond(add_partitions_to_txn._results(transaction.topics, errors))

    patch.setattr(add_partitions_to_txn, "_add", add)


def sets_an_ephemeral_value_of_another_session(patch: pytest.MonkeyPatch) -> None:
    """The registration is written over and still belongs to the dead process's session, and ends with it."""
    sound = ZnodeTree.writes

    def writes(self: ZnodeTree, operations: Any) -> list[Any]:
        made = sound(self, operations)
        removed = {write.path for write in made if isinstance(write, Remove)}
        return [
            SetData(write.path, write.data) if isinstance(write, Create) and write.path in removed else write
            for write in made
            if not (
                isinstance(write, Remove) and any(isinstance(one, Create) and one.path == write.path for one in made)
            )
        ]

    patch.setattr(ZnodeTree, "writes", writes)


def claims_producer_ids_that_another_broker_has(patch: pytest.MonkeyPatch) -> None:
    """Scenario 25: every block is made from what the image says, whatever was claimed since."""

    sound = producer_id_blocks.claim_producer_ids

    async def claim(store: Any, *, node_id: int) -> range:
        is_first = await store.get(LATEST_PRODUCER_ID_BLOCK) is None
        claimed = await sound(store, node_id=node_id)
        return claimed if is_first else range(producer_id_blocks.BLOCK_SIZE)

    patch.setattr(broker, "claim_producer_ids", claim)


# -- membership and terms


def joins_without_new_leader_epochs(patch: pytest.MonkeyPatch) -> None:
    """Scenario 35: markers of two memberships cannot be told apart."""
    patch.setattr(Membership, "_raise_epochs", lambda self, image, raised: MetadataDecision((), ()))


def takes_markers_of_an_earlier_coordinator(patch: pytest.MonkeyPatch) -> None:
    """Scenario 35: what the last coordinator of a transactional id sends late ends the transaction of the next."""
    sound = ProducerStates.check_marker

    def check_marker(self: Any, producer_id: int, producer_epoch: int, marker: Any, **more: Any) -> None:
        known = self.coordinator_epoch(producer_id)
        newest = marker._replace(coordinator_epoch=max(marker.coordinator_epoch, known or 0))
        sound(self, producer_id, producer_epoch, newest, **more)

    patch.setattr(ProducerStates, "check_marker", check_marker)


def sends_markers_under_the_first_epoch(patch: pytest.MonkeyPatch) -> None:
    """Scenario 35: a coordinator that has come back is refused as its own predecessor."""
    sound = MarkerDelivery.__init__

    def init(self: Any, node: Any, effect: Any, **more: Any) -> None:
        sound(self, node, effect._replace(coordinator_epoch=0), **more)

    patch.setattr(MarkerDelivery, "__init__", init)


def leads_on_after_its_session_was_lost(patch: pytest.MonkeyPatch) -> None:
    """It takes itself for a member for ever, and no client is sent to it."""
    patch.setattr(Membership, "_expel", lambda self, reason: None)


def keeps_what_the_gate_was_told_over_a_term(patch: pytest.MonkeyPatch) -> None:
    """Scenario 42: what the coordinator said in one term of leadership counts in the next."""
    patch.setattr(txn_offset_commit, "_is_over", lambda node, runtime: False)


# -- what brokers ask each other


def serves_older_connections(patch: pytest.MonkeyPatch) -> None:
    """A marker that was sent again arrives a second time, and ends the next transaction of V1."""
    patch.setattr(NewestConnections, "check", lambda self, client_id, connection: None)


def counts_an_admission_although_a_marker_came(patch: pytest.MonkeyPatch) -> None:
    """Scenario 42: what is written on it belongs to a transaction that is over."""
    sound = TransactionGate.answered

    def answered(self: Any, asking: Any, *rest: Any, **more: Any) -> bool:
        asking.is_over = False
        return sound(self, asking, *rest, **more)

    patch.setattr(TransactionGate, "answered", answered)


def takes_no_answer_for_an_admission(patch: pytest.MonkeyPatch) -> None:
    """Scenario 42: the coordinator has not heard of the partition, and will not end anything there."""
    sound = remote_admission._result
    patch.setattr(
        remote_admission,
        "_result",
        lambda question, response, result: (
            AddPartitionsResult() if response is None else sound(question, response, result)
        ),
    )


def takes_no_answer_for_an_acknowledgement(patch: pytest.MonkeyPatch) -> None:
    """Scenario 33: the marker was lost on its way."""
    sound = remote_markers._codes
    patch.setattr(
        remote_markers,
        "_codes",
        lambda groups, response: (
            {owed: ErrorCode.NONE for group in groups for owed in group}
            if response is None
            else sound(groups, response)
        ),
    )


def acknowledges_markers_before_they_are_committed(patch: pytest.MonkeyPatch) -> None:
    """Scenario 33: a power cut takes a marker that its coordinator counts on."""
    patch.setattr(write_txn_markers._DelayedMarkers, "wait_for", lambda self: None)
    patch.setattr(write_txn_markers._DelayedMarkers, "committed", lambda self, token: None)


def gives_up_markers_after_a_refusal(patch: pytest.MonkeyPatch) -> None:
    """Scenario 38: a leader that is away for a moment never gets its marker."""
    patch.setattr(MarkerDelivery, "_try_again_later", lambda self: None)


def waits_for_an_answer_of_a_process_that_is_gone(patch: pytest.MonkeyPatch) -> None:
    """After a power cut, until the answer's deadline."""
    patch.setattr(Peers, "changed", lambda self, before, after, changes: None)


def ends_what_coordinators_elsewhere_have_open(patch: pytest.MonkeyPatch) -> None:
    """After a restart only the coordinator's own shards are asked."""

    async def ask_all(self: Any, suspects: Any, remote: Any) -> Any:
        owners = await self._owners(frozenset(opened.producer_id for _, opened in suspects))
        return await self._end_unknown(suspects, owners or {})

    patch.setattr(Reconciliation, "_ask_all", ask_all)
