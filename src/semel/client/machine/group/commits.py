"""The offsets of a group: OffsetCommit and OffsetFetch.

The law: commits are sent in the order in which they were asked for, one at a time, and one that has to be sent again is
sent again before the next. So the commit that was asked for last is the last one, and no offset goes back by a retry.
Once partitions are dropped, nothing of theirs is sent any more; so the rest of a commit may be sent under a later
generation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from semel.client.config.common import ClientConfig
from semel.client.machine.connection.calls import Call
from semel.client.machine.connection.promise import Promise
from semel.client.machine.connection.retry import Retry
from semel.client.machine.group.coordinator import GroupCoordinator
from semel.client.machine.group.reactions import Reaction, reaction_to
from semel.client.values import GroupMetadata, OffsetAndMetadata
from semel.clock import NEVER
from semel.errors import ErrorCode, Family, KafkaError, TimedOut, client_error, named
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

_GROUPS_SINCE: Final = 8
# From the next version on, topics have ids instead of names; the offset of a topic that was deleted has neither.
_NAMES_UNTIL: Final = 9

Committed = dict[TopicPartition, OffsetAndMetadata | None]


@dataclass(slots=True, eq=False)
class _Commit:
    member: GroupMetadata
    remaining: dict[TopicPartition, OffsetAndMetadata]
    deadline_ms: float
    promise: Promise[None] = field(default_factory=Promise)


@dataclass(slots=True, eq=False)
class _Fetch:
    member: GroupMetadata
    partitions: tuple[TopicPartition, ...]
    retry: Retry
    promise: Promise[Committed] = field(default_factory=Promise)
    asking: bool = False


class GroupOffsets:
    """Commits and fetches the offsets of a group.

    ``renewed`` returns the current identity of a member, ``awaits_generation`` whether that is about to change, and
    ``react`` is called with what an error means for the membership.
    """

    def __init__(
        self,
        config: ClientConfig,
        coordinator: GroupCoordinator,
        random: Random,
        *,
        commit_timeout_ms: int,
        renewed: Callable[[GroupMetadata], GroupMetadata | None],
        awaits_generation: Callable[[], bool],
        react: Callable[[Reaction, KafkaError, float], None],
    ) -> None:
        self._coordinator = coordinator
        self._retry = Retry.of(config, random)
        """The retry state of the first commit in the queue."""
        self._commit_timeout_ms = commit_timeout_ms
        self._renewed = renewed
        self._awaits_generation = awaits_generation
        self._react = react
        self._commits: deque[_Commit] = deque()
        self._asking = False
        self._fetches: list[_Fetch] = []

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: GroupMetadata, now_ms: float
    ) -> Promise[None]:
        commit = _Commit(member, dict(offsets), now_ms + self._commit_timeout_ms)
        if offsets:
            self._commits.append(commit)
        else:
            commit.promise.fulfil(None)
        return commit.promise

    def fetch(self, partitions: Iterable[TopicPartition], member: GroupMetadata) -> Promise[Committed]:
        """Fetch committed offsets; ``None`` where there is none. Waits for open transactions that may change them."""
        fetch = _Fetch(member, tuple(dict.fromkeys(partitions)), self._retry.succeeded())
        if fetch.partitions:
            self._fetches.append(fetch)
        else:
            fetch.promise.fulfil({})
        return fetch.promise

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Commit nothing more for these partitions, which belong to other members now."""
        gone = set(partitions)
        for commit in tuple(self._commits):
            dropped = gone.intersection(commit.remaining)
            for topic_partition in dropped:
                del commit.remaining[topic_partition]
            if dropped:
                names = ", ".join(sorted(map(str, dropped)))
                text = f"{names} went to another member before offsets were committed"
                commit.promise.fail(client_error(ErrorCode.REBALANCE_IN_PROGRESS, text, Family.ABORTABLE))

    def fail(self, error: Exception) -> None:
        commits, self._commits = self._commits, deque()
        fetches, self._fetches = self._fetches, []
        for commit in commits:
            commit.promise.fail(error)
        for fetch in fetches:
            fetch.promise.fail(error)

    def poll(self, now_ms: float) -> None:
        while self._commits and not self._asking:
            head = self._commits[0]
            if now_ms >= head.deadline_ms:
                text = f"offsets were not committed within {self._commit_timeout_ms} ms"
                head.promise.fail(TimedOut(ErrorCode.REQUEST_TIMED_OUT, text))
                self._next()
            elif not head.remaining:
                self._next()
            else:
                if self._retry.is_due(now_ms):
                    self._send_commit(head, now_ms)
                break
        for fetch in tuple(self._fetches):
            if fetch.promise.settled:  # The caller has given it up.
                self._done(fetch)
            elif not fetch.asking and fetch.retry.is_due(now_ms):
                self._send_fetch(fetch, now_ms)

    def next_deadline_ms(self, now_ms: float) -> float:
        deadlines = [fetch.retry.due_ms for fetch in self._fetches if not fetch.asking]
        if self._commits and not self._asking:
            deadlines += [self._retry.due_ms, self._commits[0].deadline_ms]
        return min((moment for moment in deadlines if moment > now_ms), default=NEVER)

    # Committing

    def _send_commit(self, commit: _Commit, now_ms: float) -> None:
        member = self._renewed(commit.member)
        if member is None:
            text = f"{commit.member.member_id} is no longer a member of group {self._coordinator.group_id!r}"
            commit.promise.fail(client_error(ErrorCode.UNKNOWN_MEMBER_ID, text))
            self._next()
            return

        def build(version: int) -> OffsetCommitRequest:
            topics: dict[str, OffsetCommitRequestTopic] = {}
            for (topic, index), offset in commit.remaining.items():
                topics.setdefault(topic, OffsetCommitRequestTopic(topic)).partitions.append(
                    OffsetCommitRequestPartition(index, offset.offset, offset.leader_epoch, offset.metadata)
                )
            return OffsetCommitRequest(
                self._coordinator.group_id,
                member.generation_id,
                # A consumer without a generation commits without a member id, as it does for partitions that it has
                # assigned itself.
                "" if member.generation_id is None else member.member_id,
                None if member.generation_id is None else member.group_instance_id,
                topics=list(topics.values()),
            )

        def answered(response: Any, version: int, at_ms: float) -> None:
            self._asking = False
            codes = {
                TopicPartition(topic.name, partition.partition_index): partition.error_code
                for topic in response.topics
                for partition in topic.partitions
            }
            self._committed(commit, member, codes, at_ms)

        def lost(reason: str, at_ms: float) -> None:
            self._asking = False
            self._coordinator.forget()
            self._retry = self._retry.failed(at_ms)

        call = Call(ApiKey.OFFSET_COMMIT, build, answered, lost, version_max=_NAMES_UNTIL)
        self._asking = self._coordinator.ask(call, now_ms)

    def _committed(
        self, commit: _Commit, member: GroupMetadata, codes: Mapping[TopicPartition, int], now_ms: float
    ) -> None:
        if not self._commits or self._commits[0] is not commit:
            return  # It was dropped meanwhile.
        worst: tuple[TopicPartition, int] | None = None
        for topic_partition in tuple(commit.remaining):
            code = codes.get(topic_partition, ErrorCode.UNKNOWN_SERVER_ERROR)
            if code == ErrorCode.NONE:
                del commit.remaining[topic_partition]
            elif worst is None or _is_repeated(worst[1]):
                worst = topic_partition, code
        if worst is None:
            commit.promise.fulfil(None)
            self._next()
            return
        topic_partition, code = worst
        text = f"committing offset {commit.remaining[topic_partition].offset} of {topic_partition} "
        text += f"for group {self._coordinator.group_id!r} was answered {named(code).name}"
        reaction = reaction_to(ApiKey.OFFSET_COMMIT, code)
        if reaction is Reaction.FIND_COORDINATOR:
            self._coordinator.forget()
        if reaction in _OUTDATED and self._renewed(member) not in (member, None):
            self._retry = self._retry.failed(now_ms)  # A rebalance came first, and this member has kept the partitions.
            return
        if reaction is Reaction.LOSE_GENERATION and self._awaits_generation():
            # JoinGroup has a connection of its own: its response, with the new generation, may come after this one.
            self._retry = self._retry.failed(now_ms)
            return
        if _is_repeated(code):
            self._react(reaction, client_error(code, text), now_ms)
            self._retry = self._retry.failed(now_ms)
            return
        error = client_error(code, text, Family.FATAL if reaction is Reaction.FATAL else None)
        commit.promise.fail(error)
        self._next()
        self._react(reaction, error, now_ms)

    def _next(self) -> None:
        self._commits.popleft()
        self._retry = self._retry.succeeded()

    # Fetching

    def _send_fetch(self, fetch: _Fetch, now_ms: float) -> None:
        # A consumer that has lost its membership may still fetch offsets, without a member id.
        member = self._renewed(fetch.member) or GroupMetadata(self._coordinator.group_id)
        topics: dict[str, list[int]] = {}
        for topic, index in fetch.partitions:
            topics.setdefault(topic, []).append(index)

        def build(version: int) -> OffsetFetchRequest:
            if version < _GROUPS_SINCE:
                by_name = [OffsetFetchRequestTopic(name, indexes) for name, indexes in topics.items()]
                return OffsetFetchRequest(self._coordinator.group_id, by_name, require_stable=True)
            asked = [OffsetFetchRequestTopics(name, partition_indexes=indexes) for name, indexes in topics.items()]
            group = OffsetFetchRequestGroup(self._coordinator.group_id, topics=asked)
            if member.generation_id is not None:
                group.member_id, group.member_epoch = member.member_id, member.generation_id
            return OffsetFetchRequest(groups=[group], require_stable=True)

        def answered(response: Any, version: int, at_ms: float) -> None:
            fetch.asking = False
            self._fetched(fetch, member, response if version < _GROUPS_SINCE else response.groups[0], at_ms)

        def lost(reason: str, at_ms: float) -> None:
            fetch.asking = False
            self._coordinator.forget()
            fetch.retry = fetch.retry.failed(at_ms)

        call = Call(ApiKey.OFFSET_FETCH, build, answered, lost, version_max=_NAMES_UNTIL)
        fetch.asking = self._coordinator.ask(call, now_ms)

    def _fetched(self, fetch: _Fetch, member: GroupMetadata, answer: Any, now_ms: float) -> None:
        found: Committed = dict.fromkeys(fetch.partitions)
        codes = [answer.error_code]
        for topic in answer.topics:
            for partition in topic.partitions:
                codes.append(partition.error_code)
                if partition.committed_offset is not None:
                    found[TopicPartition(topic.name, partition.partition_index)] = OffsetAndMetadata(
                        partition.committed_offset, partition.metadata or "", partition.committed_leader_epoch
                    )
        wrong = [code for code in codes if code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)]
        if not wrong:
            self._done(fetch)
            fetch.promise.fulfil(found)
            return
        code = next((code for code in wrong if reaction_to(ApiKey.OFFSET_FETCH, code) not in _REPEATED), wrong[0])
        text = f"OffsetFetch of group {self._coordinator.group_id!r} was answered {named(code).name}"
        reaction = reaction_to(ApiKey.OFFSET_FETCH, code)
        error = client_error(code, text, Family.FATAL if reaction is Reaction.FATAL else None)
        if reaction is Reaction.FIND_COORDINATOR:
            self._coordinator.forget()
        if reaction in _OUTDATED and self._renewed(member) != member:
            fetch.retry = fetch.retry.failed(now_ms)  # Sent again with the current identity.
            return
        if reaction in _REPEATED:
            fetch.retry = fetch.retry.failed(now_ms)
        else:
            self._done(fetch)
            fetch.promise.fail(error)
        self._react(reaction, error, now_ms)

    def _done(self, fetch: _Fetch) -> None:
        if fetch in self._fetches:
            self._fetches.remove(fetch)


_OUTDATED: Final = frozenset({Reaction.LOSE_GENERATION, Reaction.LOSE_MEMBERSHIP})
_REPEATED: Final = frozenset({Reaction.RETRY, Reaction.FIND_COORDINATOR, Reaction.AWAIT_EPOCH})


def _is_repeated(code: int) -> bool:
    return reaction_to(ApiKey.OFFSET_COMMIT, code) in _REPEATED
