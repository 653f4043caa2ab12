"""Bugs that coordinators and consumers have had, or could have: each is a change of one method.

Each breaks a scenario, or one of the laws in docs/design/groups.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import pytest

from semel.broker.coordinators.shard_runtime import ShardRuntime, _DelayedDecision
from semel.client.assignors import Assignment
from semel.client.machine.connection.promise import Promise
from semel.client.machine.consumer.consumer import ConsumerMachine
from semel.client.machine.consumer.start_offsets import StartOffsets
from semel.client.machine.group.classic import ClassicMembership
from semel.client.machine.group.group import Group
from semel.client.machine.group.leadership import Leadership
from semel.client.machine.group.reassignment import Reassignment
from semel.client.transaction_offsets import TransactionOffsets
from semel.client.values import GroupMetadata, OffsetAndMetadata
from semel.coordinator.decision import Decision
from semel.coordinator.group import conversion, records
from semel.coordinator.group.classic import rebalance
from semel.coordinator.group.classic.group import ClassicGroup
from semel.coordinator.group.classic.groups import ClassicGroups
from semel.coordinator.group.consumer import progress, reconciliation
from semel.coordinator.group.consumer.group import ConsumerGroup
from semel.coordinator.group.consumer.groups import ConsumerGroups
from semel.coordinator.group.directory import GroupDirectory
from semel.coordinator.group.offsets.offset_shard import OffsetShard
from semel.errors import ErrorCode
from tests.simulation.planted_transaction_bugs import (
    drops_offsets_of_committed_transactions as drops_offsets_of_committed_transactions,
)

Plant: TypeAlias = Callable[[pytest.MonkeyPatch], None]

_OLD = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH})


# -- the coordinator


def commits_for_old_generations(patch: pytest.MonkeyPatch) -> None:
    """Scenario 53, ILLEGAL_GENERATION; law 4."""
    _forgive(patch, ClassicGroup, _OLD)


def commits_for_stale_epochs(patch: pytest.MonkeyPatch) -> None:
    """Scenario 53 in KIP-848's protocol; law 4."""
    _forgive(patch, ConsumerGroup, _OLD)


def commits_for_whom_it_has_put_out(patch: pytest.MonkeyPatch) -> None:
    """Scenario 53, UNKNOWN_MEMBER_ID; law 4."""
    for kind in (ClassicGroup, ConsumerGroup):
        _forgive(patch, kind, frozenset({ErrorCode.UNKNOWN_MEMBER_ID}))


def commits_for_static_members_that_were_replaced(patch: pytest.MonkeyPatch) -> None:
    """Scenario 53, FENCED_INSTANCE_ID; law 4."""
    for kind in (ClassicGroup, ConsumerGroup):
        _forgive(patch, kind, frozenset({ErrorCode.FENCED_INSTANCE_ID}))


def shows_offsets_that_are_undecided(patch: pytest.MonkeyPatch) -> None:
    """Scenarios 52 and 54: the new owner begins before the old one's transaction is decided (redpanda #9571)."""
    sound = OffsetShard._fetched
    patch.setattr(
        OffsetShard, "_fetched", lambda self, group_id, wanted, require_stable: sound(self, group_id, wanted, False)
    )


def answers_before_the_decision_is_durable(patch: pytest.MonkeyPatch) -> None:
    """A power cut takes back what a member was told is committed."""

    def delay(self: Any, decision: Any, waiter: Any, last_offset: int, **how: bool) -> bool:
        self._conclude(_DelayedDecision(decision, waiter))
        return False

    patch.setattr(ShardRuntime, "_delay", delay)


def forgets_groups_in_a_restart(patch: pytest.MonkeyPatch) -> None:
    """Law 1: the generations begin anew, and a zombie's is the current one again."""
    sound = GroupDirectory.replay

    def replay(self: GroupDirectory, record: Any) -> None:
        if record.group_id in self.groups or not isinstance(record, records.GroupMetadata):
            sound(self, record)

    patch.setattr(GroupDirectory, "replay", replay)


def keeps_the_generation_in_a_rebalance(patch: pytest.MonkeyPatch) -> None:
    """Law 2: two assignments in one generation."""
    sound = rebalance._next_generation

    def next_generation(draft: Any) -> None:
        if draft.group.generation > 1:
            draft.change(generation=draft.group.generation - 1)
        sound(draft)

    patch.setattr(rebalance, "_next_generation", next_generation)


def gives_away_what_is_not_given_up(patch: pytest.MonkeyPatch) -> None:
    """Law 3: a partition has two owners."""
    sound = reconciliation.reconciled
    patch.setattr(progress, "reconciled", lambda current, **rest: sound(current, **{**rest, "owners": {}}))


def takes_revocations_for_granted(patch: pytest.MonkeyPatch) -> None:
    """Law 3: the new owner begins while the old one still works on it."""
    patch.setattr(reconciliation, "_holds", lambda claimed, partitions: False)


def puts_nobody_out(patch: pytest.MonkeyPatch) -> None:
    """No session ever ends: who has died keeps its partitions."""
    patch.setattr(ClassicGroups, "_session_over", lambda self, draft, member_id: None)
    patch.setattr(ConsumerGroups, "due", lambda self, group, key, topics, moment: Decision(None))


def forgets_sessions_in_a_restart(patch: pytest.MonkeyPatch) -> None:
    """Law 7: who died while the coordinator was away keeps its partitions."""
    patch.setattr(ClassicGroups, "loaded", lambda self, group, moment: ())
    patch.setattr(ConsumerGroups, "loaded", lambda self, group, moment: iter(()))


def begins_epochs_anew_when_it_converts(patch: pytest.MonkeyPatch) -> None:
    """Law 1, over a change of the protocol."""
    sound = conversion.Upgrade.__init__

    def init(self: Any, group: ClassicGroup, *rest: Any) -> None:
        sound(self, replace(group, generation=0), *rest)

    patch.setattr(conversion.Upgrade, "__init__", init)


def forgets_what_members_own_when_it_converts(patch: pytest.MonkeyPatch) -> None:
    """Law 3, over a change of the protocol."""
    patch.setattr(conversion, "_owned", lambda group, topics: dict.fromkeys(group.members, frozenset()))


# -- the client


def client_assigns_a_partition_twice(patch: pytest.MonkeyPatch) -> None:
    """Law 2, by the leader's doing."""
    sound = Leadership.assign

    def assign(self: Leadership, assignor: Any, view: Any) -> Any:
        assigned = sound(self, assignor, view)
        if len(assigned) > 1:
            first = Assignment.from_bytes(assigned[0].assignment)
            assigned[1] = replace(assigned[1], assignment=first.to_bytes())
        return assigned

    patch.setattr(Leadership, "assign", assign)


def client_leaves_a_partition_out(patch: pytest.MonkeyPatch) -> None:
    """Nobody reads it."""
    sound = Leadership.assign

    def assign(self: Leadership, assignor: Any, view: Any) -> Any:
        return [
            replace(one, assignment=Assignment(Assignment.from_bytes(one.assignment).partitions[1:]).to_bytes())
            for one in sound(self, assignor, view)
        ]

    patch.setattr(Leadership, "assign", assign)


def client_reads_on_when_it_has_lost_its_partitions(patch: pytest.MonkeyPatch) -> None:
    """The group went on without it, and it works on what others have."""
    patch.setattr(Reassignment, "lose", lambda self: self.cancel())


def client_joins_before_it_has_given_up(patch: pytest.MonkeyPatch) -> None:
    """Eager rebalances rest on everybody having stopped."""
    patch.setattr(ClassicMembership, "_prepare", lambda self: setattr(self, "_is_prepared", True))


def client_does_not_go_back_after_an_abort(patch: pytest.MonkeyPatch) -> None:
    """Scenario 57, KAFKA-17582: what was aborted is skipped."""
    patch.setattr(StartOffsets, "rewind", lambda self: None)


def client_commits_transactions_as_nobody(patch: pytest.MonkeyPatch) -> None:
    """Scenarios 53 and 54, KIP-447: nothing tells a zombie from a member."""
    sound = TransactionOffsets.to_send

    def to_send(self: TransactionOffsets) -> dict[Any, OffsetAndMetadata]:
        sent = sound(self)
        self.group = GroupMetadata(self.group.group_id)
        return sent

    patch.setattr(TransactionOffsets, "to_send", to_send)


def client_does_not_see_that_its_work_is_lost(patch: pytest.MonkeyPatch) -> None:
    """Scenario 54: what was read of a partition that has gone is committed without its offset."""
    patch.setattr(ConsumerMachine, "has_lost_partitions", property(lambda self: False))


def client_does_not_ask_where_its_group_was(patch: pytest.MonkeyPatch) -> None:
    """A new owner begins at the beginning."""

    def committed(self: Group, partitions: Any) -> Promise[Any]:
        promise: Promise[Any] = Promise()
        promise.fulfil(dict.fromkeys(partitions))
        return promise

    patch.setattr(Group, "committed", committed)


def client_commits_more_than_it_has_handed_out(patch: pytest.MonkeyPatch) -> None:
    """What comes next is skipped by whoever gets the partition."""
    sound = Group.unsettled
    patch.setattr(
        Group,
        "unsettled",
        lambda self: {one: replace(offset, offset=offset.offset + 1) for one, offset in sound(self).items()},
    )


def _forgive(patch: pytest.MonkeyPatch, kind: type[Any], errors: frozenset[ErrorCode]) -> None:
    """Let those commit who would be refused with one of these."""
    sound = kind.validate_offset_commit

    def validate(self: Any, *args: Any, **rest: Any) -> ErrorCode:
        found: ErrorCode = sound(self, *args, **rest)
        return ErrorCode.NONE if found in errors else found

    patch.setattr(kind, "validate_offset_commit", validate)
