"""A fetch session with one broker (KIP-227): requests name only changed partitions, responses only those with new data.

The broker remembers which partitions this consumer fetches from it, and from which offsets. The requests of a session
are numbered. When one fails or is lost, or a response does not fit, the client does not know what the broker remembers,
and begins a new session with a full request. So the law is: the broker remembers what ``_known`` has, or the next
request is a full one.

    id 0, epoch 0        everything; please begin a session
    id n, epoch 0        everything; end session n and begin another one
    id n, epoch e >= 1   changes
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from semel.errors import ErrorCode
from semel.types import INT32_MAX, TopicPartition
from semel.wire.messages.fetch import FetchPartition, FetchResponse, FetchTopic, ForgottenTopic

SESSIONS_SINCE: Final = 7

_NO_SESSION: Final = 0
_FIRST_EPOCH: Final = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """The part of a Fetch request about one partition, and the id of its topic."""

    topic_id: UUID
    partition: FetchPartition


class Contents(NamedTuple):
    """The part of a request that a session decides on."""

    session_id: int
    session_epoch: int | None
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]


class FetchSessionHandler:
    def __init__(self) -> None:
        self._id = _NO_SESSION
        self._epoch = _FIRST_EPOCH
        self._known: dict[TopicPartition, Asked] = {}
        self._uses_topic_ids = False

    def request(self, wanted: Mapping[TopicPartition, Asked], *, version: int, uses_topic_ids: bool) -> Contents:
        """Return what to send in order to fetch these partitions, and no others.

        With an epoch above 0, a partition that the response does not mention has nothing new.
        """
        if version < SESSIONS_SINCE:
            self._restart(_NO_SESSION)
            return Contents(_NO_SESSION, None, _topics(wanted), [])
        if uses_topic_ids != self._uses_topic_ids:
            self._restart(self._id)
        self._uses_topic_ids = uses_topic_ids
        changed = {partition: asked for partition, asked in wanted.items() if self._known.get(partition) != asked}
        # A topic that was deleted and created again has another id: the broker would keep both partitions in the
        # session.
        gone = [
            (partition, known)
            for partition, known in self._known.items()
            if partition not in wanted or (uses_topic_ids and wanted[partition].topic_id != known.topic_id)
        ]
        self._known = dict(wanted)
        return Contents(self._id, self._epoch, _topics(changed), _forgotten(gone))

    def answered(self, response: FetchResponse) -> bool:
        """Whether the response is valid; if not, it is to be ignored, and the next request begins a new session."""
        if response.error_code != ErrorCode.NONE:
            is_forgotten = response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            self._restart(_NO_SESSION if is_forgotten else self._id)
            return False
        if response.session_id == _NO_SESSION:
            self._restart(_NO_SESSION)  # The broker has no room for a session, or has ended it.
            return True
        if self._epoch != _FIRST_EPOCH and response.session_id != self._id:
            self._restart(self._id)
            return False
        self._id = response.session_id
        self._epoch = 1 if self._epoch == INT32_MAX else self._epoch + 1
        return True

    def lost(self) -> None:
        """Begin a new session with the next request: the lost one may have been served or not."""
        self._restart(self._id)

    def _restart(self, session_id: int) -> None:
        self._id, self._epoch, self._known = session_id, _FIRST_EPOCH, {}


def _topics(asked: Mapping[TopicPartition, Asked]) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for (topic, _), one in asked.items():
        topics.setdefault(topic, FetchTopic(topic, one.topic_id, [])).partitions.append(one.partition)
    return list(topics.values())


def _forgotten(gone: list[tuple[TopicPartition, Asked]]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, UUID], ForgottenTopic] = {}
    for (topic, index), known in gone:
        entry = topics.setdefault((topic, known.topic_id), ForgottenTopic(topic, known.topic_id, []))
        entry.partitions.append(index)
    return list(topics.values())
