"""The topics that a consumer subscribes to: by name, or all whose whole name matches a pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from semel.client.arguments import as_topic
from semel.client.machine.connection.cluster_view import ClusterView
from semel.types import INTERNAL_TOPICS


@dataclass(frozen=True, slots=True)
class TopicSubscription:
    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None

    @classmethod
    def of(cls, topics: Iterable[str] | None, pattern: str | re.Pattern[str] | None) -> TopicSubscription:
        """Return the subscription to topics or to a pattern.

        Raises ``ValueError`` unless exactly one of the two is given, ``TypeError`` if it has the wrong type.
        """
        if isinstance(topics, str | bytes):
            # A str is a sequence of strs, too: each character would be taken for a topic.
            raise TypeError(f"subscribe to topics {topics!r}: give a list of names, such as [{topics!r}]")
        if (topics is None) == (pattern is None):
            raise ValueError("subscribe to topics, or to a pattern: exactly one of the two")
        if pattern is not None:
            return cls(pattern=re.compile(pattern))
        names = tuple(dict.fromkeys(map(as_topic, topics or ())))
        if not all(names) or not names:
            raise ValueError(f"subscribe to topics {names}: name one at least, and none that is empty")
        return cls(topics=names)

    def matching(self, view: ClusterView, *, exclude_internal: bool) -> tuple[str, ...]:
        """Return the topics that this subscription matches now."""
        if self.pattern is None:
            return self.topics
        return tuple(
            sorted(
                name
                for name, topic in view.topics.items()
                if topic.partitions
                and self.pattern.fullmatch(name)
                and not (exclude_internal and (name in INTERNAL_TOPICS or topic.is_internal))
            )
        )

    def __str__(self) -> str:
        return ", ".join(self.topics) if self.pattern is None else f"pattern {self.pattern.pattern!r}"
