"""Membership in a group, in either protocol: what a consumer needs of it, and what both protocols do alike.

The law: a request that was sent as a member means nothing once that membership has ended. ``_reset`` ends it, and every
response that comes later is ignored.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from semel.client.machine.connection.calls import Call
from semel.client.machine.connection.connections import COORDINATION
from semel.client.machine.connection.promise import Promise
from semel.client.machine.connection.retry import Retry
from semel.client.machine.group.member_context import MemberContext
from semel.client.machine.group.reactions import Reaction
from semel.client.machine.group.subscription import TopicSubscription
from semel.client.values import GroupMetadata
from semel.errors import ErrorCode, Family, KafkaError, client_error
from semel.wire.apis import ApiKey

log = logging.getLogger(__name__)


class GroupMembership(ABC):
    def __init__(self, context: MemberContext) -> None:
        self._config = context.config
        self._coordinator = context.coordinator
        self._metadata = context.metadata
        self._reassignment = context.reassignment
        self._poll_liveness = context.poll_liveness
        self._retry = Retry.of(context.config.client, context.random)
        self._subscription: TopicSubscription | None = None
        self.error: KafkaError | None = None
        """Why this consumer is not a member. The caller raises it in the application, then calls ``error_raised``."""
        self._member_id = ""
        self._generation_id: int | None = None
        """The generation, or member epoch; ``None`` while this consumer is not a member."""
        self._ended_as: GroupMetadata | None = None
        """The identity of the last membership, once it has ended."""
        self._attempt = 0
        """Increased whenever the membership ends: a response to a request of an earlier attempt is ignored."""
        self._asking = False

    # What the consumer calls

    def subscribe(self, subscription: TopicSubscription) -> None:
        """Subscribe to these topics, and join the group if this consumer is not a member."""
        self._subscription = subscription

    def leave(self, reason: str, now_ms: float) -> Promise[None]:
        """Unsubscribe and leave. The promise is kept when the coordinator has answered, or cannot be reached."""
        self._subscription = None
        return self._leave(reason, now_ms)

    @property
    def is_subscribed(self) -> bool:
        return self._subscription is not None

    @property
    def is_member(self) -> bool:
        return self._generation_id is not None

    def awaits_generation(self) -> bool:
        """Whether the group may already have a newer generation with this member, because JoinGroup is in flight."""
        return False

    @property
    @abstractmethod
    def ownership_version(self) -> object:
        """A value that changes whenever another member may have had the partitions without this member's knowledge."""

    @property
    @abstractmethod
    def topics(self) -> tuple[str, ...]:
        """The topics whose metadata is needed."""

    @property
    def wants_all_topics(self) -> bool:
        """Whether the metadata of all topics is needed, because a pattern may match any of them.

        Also if the broker matches the pattern: its response has topic ids, whose names are needed.
        """
        return self._subscription is not None and self._subscription.pattern is not None

    def metadata(self) -> GroupMetadata:
        """Return this member's current identity. Without a generation, it is not a member."""
        return GroupMetadata(
            self._coordinator.group_id, self._generation_id, self._member_id, self._config.group_instance_id
        )

    def last_metadata(self) -> GroupMetadata:
        """Return the current identity or, if the membership has ended, the one that it ended with.

        A coordinator refuses that one. It would accept an offset commit of a transaction without any identity, so a
        member that was removed must not appear as a consumer that never was one.
        """
        return self.metadata() if self.is_member or self._ended_as is None else self._ended_as

    def forget_last(self) -> None:
        """Forget the identity of the last membership: what is read from now on was not assigned by the group."""
        self._ended_as = None

    def renewed(self, member: GroupMetadata) -> GroupMetadata | None:
        """Return the current identity of a member; ``None`` if its membership has ended.

        An identity without a generation is returned as it is. The caller asks only about partitions that this member
        still has: what it has lost is dropped from every commit.
        """
        if member.generation_id is None:
            return member
        return self.metadata() if self.is_member else None

    def react(self, reaction: Reaction, error: KafkaError, now_ms: float) -> None:
        """Handle what an error of OffsetCommit or OffsetFetch means for this member, which the request was sent as."""
        match reaction:
            case Reaction.LOSE_GENERATION | Reaction.LOSE_MEMBERSHIP:
                self._lost(str(error), now_ms)
            case Reaction.FATAL:
                self._fail(error, now_ms)
            case _:
                pass

    def error_raised(self) -> None:
        """Note that the application got the error. Unless this member is fenced for good, the next poll tries again."""
        if self.error is not None and self.error.code is not ErrorCode.FENCED_INSTANCE_ID:
            self.error = None

    # What the driver calls

    def poll(self, now_ms: float) -> None:
        if not self._is_out and self._poll_liveness.is_overdue(now_ms):
            self._stayed_away(now_ms)
        if self._subscription is not None and self.error is None:
            self._poll(now_ms)

    @abstractmethod
    def next_deadline_ms(self, now_ms: float) -> float: ...

    # What each protocol does in its own way

    @property
    @abstractmethod
    def _is_out(self) -> bool:
        """Whether this consumer is not a member and is not joining."""

    @abstractmethod
    def _poll(self, now_ms: float) -> None:
        """Do what is due. Called while there is a subscription and no error."""

    @abstractmethod
    def _leave(self, reason: str, now_ms: float) -> Promise[None]:
        """End the membership, and send the coordinator a request about it, if it has to know."""

    # Leaving

    def _stayed_away(self, now_ms: float) -> None:
        log.warning(
            "group %r: %s leaves: the application did not poll for max.poll.interval.ms (%d ms). Its partitions go to "
            "other members; the next poll joins again. Raise max.poll.interval.ms, or lower max.poll.records",
            self._coordinator.group_id,
            self._member_id,
            self._config.max_poll_interval_ms,
        )
        self._leave("the application did not poll for max.poll.interval.ms", now_ms)
        self._reassignment.lose()

    def _send_leave(self, api_key: ApiKey, build: Callable[[int], object], now_ms: float) -> Promise[None]:
        promise: Promise[None] = Promise()
        call = Call(
            api_key,
            build,
            answered=lambda response, version, at_ms: promise.fulfil(None),
            lost=lambda why, at_ms: promise.fulfil(None),  # Then the session times out.
        )
        if not self._coordinator.ask(call, now_ms):
            promise.fulfil(None)
        return promise

    # What went wrong

    def _was_refused(self, reaction: Reaction, code: int, text: str, now_ms: float) -> None:
        """Handle an error of a group request, as in either protocol."""
        match reaction:
            case Reaction.FIND_COORDINATOR:
                self._coordinator.forget()
                self._later(now_ms)
            case Reaction.LOSE_GENERATION | Reaction.LOSE_MEMBERSHIP:
                self._lost(text, now_ms)
            case Reaction.FATAL:
                self._fail(client_error(code, text, Family.FATAL), now_ms)
            case _:
                self._later(now_ms)

    def _lost(self, reason: str, now_ms: float) -> None:
        """End the membership: the group has removed this member, and its partitions belong to other members."""
        if self._reassignment.owned:
            log.warning("group %r: %s has lost its partitions: %s", self._coordinator.group_id, self._member_id, reason)
        self._reset(reason)
        self._reassignment.lose()

    def _fail(self, error: KafkaError, now_ms: float) -> None:
        self._lost(str(error), now_ms)
        self.error = error

    def _reset(self, reason: str | None = None) -> None:
        """End the membership. ``reason``: why this consumer has to join again; ``None`` if it left."""
        self._attempt += 1
        if self.is_member:
            self._ended_as = self.metadata()
        self._generation_id = None
        self._asking = False
        self._retry = self._retry.succeeded()

    def _later(self, now_ms: float) -> None:
        self._retry = self._retry.failed(now_ms)

    # Asking

    def _may_ask(self, now_ms: float) -> bool:
        return not self._asking and self._retry.is_due(now_ms)

    def _ask(
        self,
        api_key: ApiKey,
        build: Callable[[int], object],
        handle: Callable[[Any, float], None],
        now_ms: float,
        *,
        lane: int = COORDINATION,
        version_min: int | None = None,
        timeout_ms: int | None = None,
    ) -> bool:
        """Send a request if the coordinator is ready. ``handle`` gets the response, unless the membership has ended."""
        attempt = self._attempt

        def answered(response: Any, version: int, at_ms: float) -> None:
            if attempt == self._attempt:
                self._asking = False
                handle(response, at_ms)

        def lost(reason: str, at_ms: float) -> None:
            if attempt == self._attempt:
                self._asking = False
                self._coordinator.forget()
                self._later(at_ms)

        call = Call(api_key, build, answered, lost, version_min=version_min, timeout_ms=timeout_ms)
        if not self._coordinator.ask(call, now_ms, lane=lane):
            return False
        self._asking = True
        return True
