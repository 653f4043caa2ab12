"""The subscription of a group: names, regular expressions, and how a change of one of those topics is noticed.

A regular expression must match the whole name, as Kafka's do, and never means an internal topic, nor one that the
client may not describe whose heartbeat resolves it. It is resolved again with the first heartbeat after the topics of
the cluster, or the ACLs, have changed; what it means is recorded, so a restart changes no subscription.

All clients wait while it is resolved. So one that would take longer than ``WORK_MAX`` over the topics that there are is
refused, and from then on only topics that are new to it are looked at. And a group has few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from semel.coordinator.group.consumer.draft import Draft
from semel.coordinator.group.consumer.group import ConsumerGroup
from semel.coordinator.group.consumer.records import ConsumerGroupTombstone, GroupEpoch, ResolvedRegex
from semel.coordinator.group.formats import Kind
from semel.coordinator.group.topics import TopicsView, TopicView
from semel.coordinator.regex.regex import Regex
from semel.coordinator.regex.syntax import RegexError
from semel.types import INTERNAL_TOPICS

WORK_MAX: Final = 100_000
"""Positions of a pattern that are looked at while it is resolved over all topics: some twenty milliseconds."""
PATTERNS_MAX: Final = 64
"""How many are kept compiled, over all groups."""
GROUP_PATTERNS_MAX: Final = 10
"""How many different ones the members of a group may have: when a topic comes or goes, all are resolved in one turn."""


def error_in_regex(regex: str, topics: TopicsView) -> str | None:
    """What is wrong with it, if anything is."""
    try:
        _compiled(regex).check(topics)
    except RegexError as error:
        return str(error)
    return None


def advance_epoch(
    draft: Draft,
    topics: TopicsView,
    *,
    changed: bool,
    now_ms: int,
    may_describe: Callable[[str], bool] | None = None,
) -> None:
    """Bring regular expressions up to date, and the group to its next epoch if its members or its topics changed.

    Without ``may_describe``, where no heartbeat is the cause, regular expressions mean what they meant before.
    """
    _resolve_regexes(draft, topics, now_ms, may_describe)
    group = draft.group
    metadata_hash = _metadata_hash(subscribed_topics(group, topics))
    if changed or metadata_hash != group.metadata_hash:
        draft.write(GroupEpoch(group.group_id, group.epoch + 1, metadata_hash))


def subscribed_topics(group: ConsumerGroup, topics: TopicsView) -> list[TopicView]:
    """The subscribed topics that exist, by name."""
    names = {name for member in group.members.values() for name in group.topics_of(member)}
    found = (topics.by_name(name) for name in sorted(names))
    return [topic for topic in found if topic is not None]


def patterns_of(group: ConsumerGroup) -> set[str]:
    return {member.topic_regex for member in group.members.values() if member.topic_regex}


def _resolve_regexes(draft: Draft, topics: TopicsView, now_ms: int, may_describe: Callable[[str], bool] | None) -> None:
    group = draft.group
    used = patterns_of(group)
    is_known = group.topics_version == topics.version
    for regex in sorted(used) if may_describe is not None else ():
        known = group.regexes.get(regex)
        if known is not None and is_known:
            continue  # The topics are those that it was resolved over.
        matching = tuple(filter(may_describe, _matching(regex, topics)))
        if known is None or known.topics != matching:
            draft.write(ResolvedRegex(group.group_id, regex, matching, topics.version, now_ms))
    for regex in [known for known in group.regexes if known not in used]:
        draft.write(ConsumerGroupTombstone(Kind.CONSUMER_GROUP_REGULAR_EXPRESSION, group.group_id, regex))


def _matching(regex: str, topics: TopicsView) -> tuple[str, ...]:
    try:
        return _compiled(regex).matching(topics)
    except RegexError:
        return ()  # Written by a broker that understands it.


class _Resolved:
    """A pattern, and which of the names that it has met match."""

    __slots__ = ("_matching", "_met", "_regex")

    def __init__(self, regex: str) -> None:
        self._regex: Regex | RegexError
        try:
            self._regex = Regex(regex)
        except RegexError as error:
            self._regex = error
        self._met: frozenset[str] = frozenset()
        self._matching: frozenset[str] = frozenset()

    def check(self, topics: TopicsView) -> None:
        """Raises RegexError if it is not understood, or would take too long over these topics."""
        self._meet(_names_of(topics), WORK_MAX)

    def matching(self, topics: TopicsView) -> tuple[str, ...]:
        self._meet(_names_of(topics), None)
        return tuple(sorted(self._matching))

    def _meet(self, names: frozenset[str], work_max: int | None) -> None:
        regex = self._regex
        if isinstance(regex, RegexError):
            raise regex
        if names is self._met:
            return
        before = regex.work
        found = set()
        for name in sorted(names - self._met):
            if name not in INTERNAL_TOPICS and regex.matches(name):
                found.add(name)
            if work_max is not None and regex.work - before > work_max:
                regex.forget()
                raise RegexError(f"it takes too long: more than {work_max} steps over the names of the topics")
        regex.forget()
        self._matching = (self._matching & names) | found
        self._met = names


_names: frozenset[str] = frozenset()


def _names_of(topics: TopicsView) -> frozenset[str]:
    """The names of all topics. All patterns share one set of them, for as long as they stay the same."""
    global _names
    names = frozenset(topics.names())
    if names != _names:
        _names = names
    return _names


@lru_cache(maxsize=PATTERNS_MAX)
def _compiled(regex: str) -> _Resolved:
    return _Resolved(regex)


def _metadata_hash(topics: Iterable[TopicView]) -> int:
    """Another number when a topic came, went, grew or was created again. Only its writer needs to understand it."""
    digest = blake2b(digest_size=8)
    for topic in topics:
        digest.update(f"{topic.name}:{topic.topic_id.hex}:{topic.partition_count};".encode())
    return int.from_bytes(digest.digest(), "big", signed=True)
