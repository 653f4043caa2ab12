"""Which topics a group reads: names, regular expressions, and what tells that one of those topics has changed.

A regular expression must match the whole name, as Kafka's do, and never means an internal topic. It is resolved again
whenever the topics of the cluster change; what it means is recorded, so a restart changes nobody's subscription.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

from semel.coordinator.group.consumer.draft import Draft
from semel.coordinator.group.consumer.group import ConsumerGroup
from semel.coordinator.group.consumer.records import ConsumerGroupTombstone, GroupEpoch, ResolvedRegex
from semel.coordinator.group.consumer.regex import Regex
from semel.coordinator.group.consumer.regex_syntax import RegexError
from semel.coordinator.group.formats import Kind
from semel.coordinator.group.topics import TopicsView, TopicView
from semel.types import INTERNAL_TOPICS


def error_in_regex(regex: str) -> str | None:
    """What is wrong with it, if anything is."""
    compiled = _compiled(regex)
    return str(compiled) if isinstance(compiled, RegexError) else None


def advance_epoch(draft: Draft, topics: TopicsView, *, changed: bool, now_ms: int) -> None:
    """Bring regular expressions up to date, and the group to its next epoch if its members or its topics changed."""
    _resolve_regexes(draft, topics, now_ms)
    group = draft.group
    metadata_hash = _metadata_hash(subscribed_topics(group, topics))
    if changed or metadata_hash != group.metadata_hash:
        draft.write(GroupEpoch(group.group_id, group.epoch + 1, metadata_hash))


def subscribed_topics(group: ConsumerGroup, topics: TopicsView) -> list[TopicView]:
    """The topics that exist and somebody subscribes to, by name."""
    names = {name for member in group.members.values() for name in group.topics_of(member)}
    found = (topics.by_name(name) for name in sorted(names))
    return [topic for topic in found if topic is not None]


def _resolve_regexes(draft: Draft, topics: TopicsView, now_ms: int) -> None:
    group = draft.group
    used = {member.topic_regex for member in group.members.values() if member.topic_regex}
    for regex in sorted(used):
        matching = _matching(regex, topics.names())
        known = group.regexes.get(regex)
        if known is None or known.topics != matching:
            draft.write(ResolvedRegex(group.group_id, regex, matching, topics.version, now_ms))
    for regex in [known for known in group.regexes if known not in used]:
        draft.write(ConsumerGroupTombstone(Kind.CONSUMER_GROUP_REGULAR_EXPRESSION, group.group_id, regex))


def _matching(regex: str, names: Iterable[str]) -> tuple[str, ...]:
    pattern = _compiled(regex)
    if isinstance(pattern, RegexError):
        return ()  # Written by a broker that understands it.
    return tuple(sorted(name for name in names if name not in INTERNAL_TOPICS and pattern.matches(name)))


@lru_cache(maxsize=256)
def _compiled(regex: str) -> Regex | RegexError:
    try:
        return Regex(regex)
    except RegexError as error:
        return error


def _metadata_hash(topics: Iterable[TopicView]) -> int:
    """Another number when a topic came, went, grew or was made anew. Nobody but the writer needs to understand it."""
    digest = blake2b(digest_size=8)
    for topic in topics:
        digest.update(f"{topic.name}:{topic.topic_id.hex}:{topic.partition_count};".encode())
    return int.from_bytes(digest.digest(), "big", signed=True)
