"""A consumer's group, put together: the membership, the offsets, and automatic commits.

Records that were returned count as processed when the application asks for more. So ``poll_began`` and ``polled``
commit their offsets, if it is time, before more records are returned. A commit at any other time could cover records
that are still being processed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import TypeAlias

from semel.client.assignors import Assignor
from semel.client.config.consumer import ConsumerConfig, GroupProtocol
from semel.client.machine.connection.connections import COORDINATION, Connections
from semel.client.machine.connection.coordinators import CoordinatorLookup
from semel.client.machine.connection.metadata import Metadata
from semel.client.machine.connection.promise import Promise
from semel.client.machine.group.classic import ClassicMembership
from semel.client.machine.group.commits import Committed, GroupOffsets
from semel.client.machine.group.consumer import ConsumerMembership
from semel.client.machine.group.coordinator import GroupCoordinator
from semel.client.machine.group.member_context import MemberContext
from semel.client.machine.group.membership import GroupMembership
from semel.client.machine.group.poll_liveness import PollLiveness
from semel.client.machine.group.reassignment import Announced, Callback, PartitionChange, Reassignment, Withdrawn
from semel.client.machine.group.subscription import TopicSubscription
from semel.client.values import GroupMetadata, OffsetAndMetadata
from semel.clock import NEVER
from semel.errors import ErrorCode, KafkaError, client_error
from semel.types import TopicPartition

log = logging.getLogger(__name__)


Reached: TypeAlias = Callable[[], dict[TopicPartition, OffsetAndMetadata]]
"""Returns the position of each partition behind the records that were returned."""


class Group:
    """The group of a consumer. It does not know the consumer's machine, which applies what ``take_changes`` returns."""

    def __init__(
        self,
        config: ConsumerConfig,
        assignors: Sequence[Assignor],
        reached: Reached,
        connections: Connections,
        metadata: Metadata,
        random: Random,
    ) -> None:
        assert config.group_id is not None
        self._config = config
        self._reached = reached
        self._poll_liveness = PollLiveness(config.max_poll_interval_ms)
        self._coordinators = CoordinatorLookup(config.client, connections, metadata, random, lane=COORDINATION)
        coordinator = GroupCoordinator(config.group_id, connections, self._coordinators)
        # The other members wait for this one to give partitions up, but no longer than max.poll.interval.ms.
        patience_ms = min(config.default_api_timeout_ms, config.max_poll_interval_ms // 2)
        self._reassignment = Reassignment(commit_timeout_ms=patience_ms)
        context = MemberContext(config, coordinator, metadata, self._reassignment, self._poll_liveness, random)
        self._membership: GroupMembership = (
            ConsumerMembership(context)
            if config.group_protocol is GroupProtocol.CONSUMER
            else ClassicMembership(context, assignors)
        )
        self._offsets = GroupOffsets(
            config.client,
            coordinator,
            random,
            commit_timeout_ms=config.default_api_timeout_ms,
            renewed=self._membership.renewed,
            awaits_generation=self._membership.awaits_generation,
            react=self._membership.react,
        )
        self._auto_commit_ms = NEVER
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        """The offsets that are known to be committed, of the partitions that are read."""
        self._error: KafkaError | None = None

    # What the application wants

    def subscribe(self, subscription: TopicSubscription) -> None:
        self._membership.subscribe(subscription)

    @property
    def is_subscribed(self) -> bool:
        return self._membership.is_subscribed

    def leave(self, reason: str, now_ms: float) -> Promise[None]:
        """Revoke all partitions, as for a rebalance, and then leave. The caller must serve ``due`` meanwhile."""
        promise: Promise[None] = Promise()

        def leave_group(at_ms: float) -> None:
            self._membership.leave(reason, at_ms).then(lambda left: promise.fulfil(None))

        self._reassignment.cancel()
        if self._reassignment.owned:
            self._reassignment.give_up(self._reassignment.owned, done=leave_group)
        elif self._membership.is_subscribed:
            leave_group(now_ms)
        else:
            committing = self.commit_all(now_ms)
            if committing is None:
                promise.fulfil(None)
            else:
                committing.then(lambda settled: promise.fulfil(None))
        return promise

    def metadata(self) -> GroupMetadata:
        """Return the identity that fences the offset commits of transactions: this member's, also after it has ended.

        After ``assign`` by hand there is none.
        """
        return self._membership.last_metadata()

    def assigned_by_hand(self) -> None:
        self._membership.forget_last()

    @property
    def ownership_version(self) -> object:
        """A value that stays equal as long as no other member has had this member's partitions."""
        return self._reassignment.withdrawals, self._membership.ownership_version

    @property
    def topics(self) -> tuple[str, ...]:
        return self._membership.topics

    @property
    def wants_all_topics(self) -> bool:
        return self._membership.wants_all_topics

    # Offsets

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], now_ms: float) -> Promise[None]:
        member = self._membership.metadata()
        if self._membership.is_subscribed and member.generation_id is None:
            promise: Promise[None] = Promise()
            text = (
                f"this consumer is not a member of group {member.group_id!r} now, so it cannot commit; the next "
                "owner of its partitions reads again from the last commit. Poll to join"
            )
            promise.fail(client_error(ErrorCode.ILLEGAL_GENERATION, text))
            return promise
        return self._offsets.commit(offsets, member, now_ms)

    def settled(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Note that these offsets are committed, by this member or through a transaction."""
        self._committed.update(offsets)

    def known_committed(self, topic_partition: TopicPartition) -> OffsetAndMetadata | None:
        """Return the offset that is known to have been committed, or to have been there when reading started."""
        return self._committed.get(topic_partition)

    def unsettled(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions behind the returned records, where they differ from what is known to be committed."""
        return {
            partition: offset
            for partition, offset in self._reached().items()
            if self._committed.get(partition) != offset
        }

    def committed(self, partitions: Iterable[TopicPartition]) -> Promise[Committed]:
        is_modern = self._config.group_protocol is GroupProtocol.CONSUMER
        member = self._membership.metadata()
        return self._offsets.fetch(partitions, member if is_modern else GroupMetadata(member.group_id))

    def commit_all(self, now_ms: float) -> Promise[None] | None:
        """Commit all changed positions, if the consumer commits automatically. Returns ``None`` if nothing is sent."""
        if not self._config.is_auto_commit:
            return None
        self._auto_commit_ms = now_ms + self._config.auto_commit_interval_ms
        news = self.unsettled()
        if not news or (self.is_subscribed and not self._membership.is_member):
            return None
        promise = self.commit(news, now_ms)

        def note_outcome(settled: Promise[None]) -> None:
            if settled.error is None:
                self.settled(news)
            else:
                log.warning("offsets were not committed: %s", settled.error)

        promise.then(note_outcome)
        return promise

    # The application's polls

    def polled(self, now_ms: float) -> bool:
        """The application polls without waiting. Returns whether the driver must poll the machine because of it."""
        self._poll_liveness.polled(now_ms)
        return self._on_poll(now_ms)

    def poll_began(self, now_ms: float) -> None:
        """The application begins to wait for records in ``poll``."""
        self._poll_liveness.poll_began()
        self._on_poll(now_ms)

    def poll_ended(self, now_ms: float) -> None:
        """The application no longer waits in ``poll``."""
        self._poll_liveness.poll_ended(now_ms)

    def _on_poll(self, now_ms: float) -> bool:
        is_busy = self._reassignment.is_busy
        if is_busy:
            self._reassignment.go_on(now_ms, self.commit_all)
        elif self._auto_commit_ms == NEVER:
            self._auto_commit_ms = now_ms + self._config.auto_commit_interval_ms
        elif now_ms >= self._auto_commit_ms:
            return self.commit_all(now_ms) is not None
        return is_busy or (self.is_subscribed and not self._membership.is_member)

    # Callbacks of the rebalance listener

    @property
    def is_blocked_by_callback(self) -> bool:
        """Whether no records may be returned now, because a callback has to run first."""
        return self._reassignment.is_busy

    @property
    def is_callback_due(self) -> bool:
        return self._reassignment.is_due

    def due(self) -> Callback | None:
        return self._reassignment.due()

    def callback_done(self, callback: Callback, now_ms: float) -> None:
        self._poll_liveness.polled(now_ms)
        self._reassignment.callback_done(callback, now_ms)

    # What is read

    def take_changes(self) -> list[PartitionChange]:
        """Return the changes of this member's partitions since the last call."""
        changes = self._reassignment.take_changes()
        for change in changes:
            if isinstance(change, Withdrawn):
                self._offsets.drop(change.partitions)
            if not isinstance(change, Announced):
                for topic_partition in change.partitions:
                    self._committed.pop(topic_partition, None)
        return changes

    # What went wrong

    @property
    def has_error(self) -> bool:
        return self._error is not None or self._membership.error is not None

    def raise_error(self) -> None:
        """Raise the error that keeps this consumer from being a member, if there is one."""
        error, self._error = self._error or self._membership.error, None
        if error is not None:
            self._membership.error_raised()
            self._poll_liveness.poll_failed()
            raise type(error)(error.code, error.message) from error

    def try_again(self) -> None:
        """Look the coordinator up again after a refusal, because the application has called for something new.

        Otherwise that waits for ``raise_error``, and an application that does not poll would never have an outcome.
        """
        self._error = None

    def fail(self, error: Exception) -> None:
        self._offsets.fail(error)

    # What the driver calls

    def poll(self, now_ms: float) -> None:
        for error in self._coordinators.take_refusals().values():
            self._error = error
            self._offsets.fail(error)
        if self._error is not None:
            return  # No request would be answered: the application gets the error, and its next poll tries again.
        if self._poll_liveness.is_in_poll:
            self._on_poll(now_ms)
        self._membership.poll(now_ms)
        if self._poll_liveness.is_in_poll:
            self._reassignment.go_on(now_ms, self.commit_all)

    def poll_offsets(self, now_ms: float) -> None:
        if self._error is None:
            self._offsets.poll(now_ms)

    def next_deadline_ms(self, now_ms: float) -> float:
        auto_commit_ms = (
            self._auto_commit_ms if self._poll_liveness.is_in_poll and self._config.is_auto_commit else NEVER
        )
        return min(
            auto_commit_ms if auto_commit_ms > now_ms else NEVER,
            self._coordinators.next_deadline_ms(now_ms),
            self._membership.next_deadline_ms(now_ms),
            self._reassignment.next_deadline_ms(now_ms),
            self._offsets.next_deadline_ms(now_ms),
        )
