"""For each scene a bug that breaks its protection; those of the simulation, and a few more."""

from __future__ import annotations

from typing import Any

import pytest

from semel.client.assignors import CooperativeStickyAssignor, StickyAssignor
from semel.coordinator.transaction import shard as transaction_shard
from semel.coordinator.transaction.decisions import init_new
from semel.errors import ErrorCode, KafkaError
from semel.log.producers.producer_state import Duplicate, ProducerStates
from tests.simulation import planted_transaction_bugs as bugs
from tests.simulation.planted_transaction_bugs import Plant


def takes_a_batch_that_leaves_a_gap(patch: pytest.MonkeyPatch) -> None:
    """What comes behind a batch that failed is written before it."""
    sound = ProducerStates.check

    def check(self: ProducerStates, header: Any, *rest: Any, **more: Any) -> Duplicate | None:
        try:
            return sound(self, header, *rest, **more)
        except KafkaError as error:
            if error.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                raise
            return None

    patch.setattr(ProducerStates, "check", check)


def forgets_who_had_the_transactional_id(patch: pytest.MonkeyPatch) -> None:
    """The successor is not told from a newcomer: nothing is fenced, and nothing that was left open is aborted."""

    def init_known(transaction: Any, identity: Any, *, timeout_ms: int, now_ms: int, **rest: Any) -> Any:
        new_id = transaction.producer_id + 1000
        return init_new(transaction.transactional_id, timeout_ms=timeout_ms, new_producer_id=new_id, now_ms=now_ms)

    patch.setattr(transaction_shard, "init_known", init_known)


def takes_every_partition_away_first(patch: pytest.MonkeyPatch) -> None:
    """The cooperative assignor rebalances as the eager ones do."""
    patch.setattr(CooperativeStickyAssignor, "protocols", StickyAssignor.protocols)


def takes_the_marker_of_any_coordinator(patch: pytest.MonkeyPatch) -> None:
    """A marker that comes late ends the transaction that is open then."""
    patch.setattr(ProducerStates, "check_marker", lambda self, *rest, **more: None)


PLANTED: dict[str, list[Plant]] = {
    "lost-answer": [bugs.appends_what_is_there_already],
    "window-of-five": [bugs.appends_what_is_there_already],
    "failing-batch": [takes_a_batch_that_leaves_a_gap],
    "fencing": [forgets_who_had_the_transactional_id],
    "open-transaction": [bugs.takes_the_high_watermark_for_the_last_stable_offset],
    "abort": [bugs.commits_offsets_of_aborted_transactions, bugs.tells_readers_of_no_aborted_transaction],
    "lost-coordinator": [bugs.aborts_after_a_restart_what_was_committed],
    "timeout": [bugs.commits_what_has_timed_out],
    "rebalance": [takes_every_partition_away_first],
    "micro-batch": [bugs.commits_offsets_of_aborted_transactions],
    "zombie-coordinator": [takes_the_marker_of_any_coordinator],
    "isolation-levels": [bugs.tells_readers_of_no_aborted_transaction, bugs.client_shows_what_was_aborted],
}
"""By the name of the scene."""
