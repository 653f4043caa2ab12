"""The subscription of a group: topic names, regular expressions, and the detection of changes of those topics.

A regular expression must match the whole name, as in Kafka. It matches internal topics too, as in Kafka, but no topic
that the client whose heartbeat resolves it may not describe. It is resolved again with the first heartbeat after the
topics of the cluster, or the ACLs, have changed; the result is recorded, so a restart changes no subscription.

All clients wait while a regular expression is resolved. So one that needs more than ``WORK_MAX`` for all present topics
is refused, later only topics that it has not seen are matched, and a group may have few of them.
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

WORK_MAX: Final = 100_000
"""How many positions of a pattern may be examined to match it with all topics: about twenty milliseconds of work."""
PATTERNS_MAX: Final = 64
"""How many compiled patterns are cached, over all groups."""
GROUP_PATTERNS_MAX: Final = 10
"""How many different patterns a group may have: when the topics change, all of them are resolved in one turn."""


def error_in_regex(regex: str, topics: TopicsView) -> str | None:
    """Return why the regular expression is refused, or ``None``."""
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
    """Resolve regular expressions again, and advance the group's epoch if its members or its topics changed.

    ``may_describe`` is given when a heartbeat is the cause. Without it, regular expressions are not resolved again.
    """
    _resolve_regexes(draft, topics, now_ms, may_describe)
    group = draft.group
    metadata_hash = _metadata_hash(subscribed_topics(group, topics))
    if changed or metadata_hash != group.metadata_hash:
        draft.write(GroupEpoch(group.group_id, group.epoch + 1, metadata_hash))


def subscribed_topics(group: ConsumerGroup, topics: TopicsView) -> list[TopicView]:
    """The subscribed topics that exist, sorted by name."""
    found = (topics.by_name(name) for name in sorted(group.subscribed_topics))
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
            continue  # It was resolved for the present topics.
        matching = tuple(filter(may_describe, _matching(regex, topics)))
        if known is None or known.topics != matching:
            draft.write(ResolvedRegex(group.group_id, regex, matching, topics.version, now_ms))
    for regex in [known for known in group.regexes if known not in used]:
        draft.write(ConsumerGroupTombstone(Kind.CONSUMER_GROUP_REGULAR_EXPRESSION, group.group_id, regex))


def _matching(regex: str, topics: TopicsView) -> tuple[str, ...]:
    try:
        return _compiled(regex).matching(topics)
    except RegexError:
        return ()  # The pattern was accepted by another broker, which can parse it.


class _Resolved:
    """A compiled pattern, the topic names that it was compared with, and those of them that match."""

    __slots__ = ("_known_names", "_matching", "_regex")

    def __init__(self, regex: str) -> None:
        self._regex: Regex | RegexError
        try:
            self._regex = Regex(regex)
        except RegexError as error:
            self._regex = error
        self._known_names: frozenset[str] = frozenset()
        self._matching: frozenset[str] = frozenset()

    def check(self, topics: TopicsView) -> None:
        """Raise RegexError if the pattern cannot be parsed, or would take too long for these topics."""
        self._match_new_names(_names_of(topics), WORK_MAX)

    def matching(self, topics: TopicsView) -> tuple[str, ...]:
        self._match_new_names(_names_of(topics), None)
        return tuple(sorted(self._matching))

    def _match_new_names(self, names: frozenset[str], work_max: int | None) -> None:
        regex = self._regex
        if isinstance(regex, RegexError):
            raise regex
        if names is self._known_names:
            return
        before = regex.work
        found = set()
        for name in sorted(names - self._known_names):
            if regex.matches(name):
                found.add(name)
            if work_max is not None and regex.work - before > work_max:
                regex.forget()
                raise RegexError(f"it takes too long: more than {work_max} steps over the names of the topics")
        regex.forget()
        self._matching = (self._matching & names) | found
        self._known_names = names


_names: frozenset[str] = frozenset()


def _names_of(topics: TopicsView) -> frozenset[str]:
    """The names of all topics. All patterns share one set of them, as long as the topics stay the same."""
    global _names
    names = frozenset(topics.names())
    if names != _names:
        _names = names
    return _names


@lru_cache(maxsize=PATTERNS_MAX)
def _compiled(regex: str) -> _Resolved:
    return _Resolved(regex)


def _metadata_hash(topics: Iterable[TopicView]) -> int:
    """Return a number that changes when a topic is created, deleted, created again or gets more partitions.

    Only this code compares the numbers, so they need not be those that Kafka computes.
    """
    digest = blake2b(digest_size=8)
    for topic in topics:
        digest.update(f"{topic.name}:{topic.topic_id.hex}:{topic.partition_count};".encode())
    return int.from_bytes(digest.digest(), "big", signed=True)
