"""Incremental fetch sessions (KIP-227): requests and responses have only the partitions that have changed.

A session has an id, and remembers which partitions a client fetches, from which offsets, and what the last response
about each partition contained. Every request of a session has an epoch that is one higher than the last one's. A
request with another epoch is refused, and the client starts a new session, so a lost or repeated request cannot make
the states of client and broker differ.

    client                                broker
    id 0, epoch 0, all partitions   -->   a new session (or id 0 if there is no room: then every fetch is full)
    id n, epoch 1, changes          -->   partitions with records, errors or moved offsets
    id n, epoch -1                  -->   the session is closed

The number of partitions is limited, and not only the number of sessions: a session that would have more than
``SESSION_PARTITIONS_MAX``, or for which there is no room beside the others, is not created, and one that grows beyond
that is closed. Its client continues with full fetches, as Kafka's clients do whenever there is no room.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias
from uuid import UUID

from semel.errors import ErrorCode, KafkaError
from semel.types import INT32_MAX, ZERO_UUID

if TYPE_CHECKING:  # Messages are imported with the first request that needs them.
    from semel.wire.messages.fetch import FetchPartition, FetchRequest, PartitionData

INITIAL_EPOCH: Final = 0
NO_SESSION: Final = 0

SESSION_PARTITIONS_MAX: Final = 10_000
"""How many partitions one session may have: each of its requests looks at all of them."""
PARTITIONS_MAX: Final = 100_000
"""How many partitions all sessions together may have: they take some 40 MB."""

# How long a session is safe from eviction by new sessions.
EVICTION_MS_MIN: Final = 120_000

Key: TypeAlias = tuple[str | bytes, int]
"""A topic, by its name or the bytes of its id, and a partition.

The bytes are used and not the UUID: the hash of a UUID is predictable, so a client could send ten thousand ids with the
same hash, and each would be compared with all before it. A client cannot predict the hash of bytes.
"""


class Random(Protocol):
    def randint(self, a: int, b: int) -> int: ...


@dataclass(slots=True)
class FetchTarget:
    """One partition of a fetch: what the client asked last, and the offsets that the last response contained."""

    topic: str
    topic_id: UUID
    asked: FetchPartition
    sent_high_watermark: int | None = None
    sent_log_start_offset: int | None = None

    @property
    def key(self) -> Key:
        return (self.topic if self.topic_id == ZERO_UUID else self.topic_id.bytes, self.asked.partition)

    def update_sent(self, data: PartitionData) -> bool:
        """Record the offsets that are sent. Returns whether the response must contain this partition."""
        if data.error_code or data.diverging_epoch.end_offset is not None:
            # The next result after an error is always sent.
            self.sent_high_watermark = None
            return True
        is_known = (
            self.sent_high_watermark == data.high_watermark and self.sent_log_start_offset == data.log_start_offset
        )
        self.sent_high_watermark = data.high_watermark
        self.sent_log_start_offset = data.log_start_offset
        return not is_known or bool(data.records) or data.preferred_read_replica is not None


class FetchSession:
    """An incremental fetch session of one client."""

    __slots__ = ("created_at_ms", "epoch", "id", "privileged", "targets", "used_at_ms", "uses_topic_ids")

    def __init__(self, session_id: int, *, privileged: bool, uses_topic_ids: bool, now_ms: float) -> None:
        self.id = session_id
        self.epoch = 1
        self.privileged = privileged  # Whether it is a follower's, which is evicted last.
        self.uses_topic_ids = uses_topic_ids
        self.created_at_ms = self.used_at_ms = now_ms
        self.targets: dict[Key, FetchTarget] = {}

    def update(self, request: FetchRequest) -> None:
        for target in targets_of(request):
            known = self.targets.get(target.key)
            if known is None:
                self.targets[target.key] = target
            else:
                known.asked = target.asked
        for forgotten in request.forgotten_topics_data:
            name = forgotten.topic_id.bytes if self.uses_topic_ids else forgotten.topic
            for partition in forgotten.partitions:
                self.targets.pop((name, partition), None)

    def changed_results(
        self, results: list[tuple[FetchTarget, PartitionData]]
    ) -> list[tuple[FetchTarget, PartitionData]]:
        """Return the results that the response must contain.

        Partitions with records go to the end of the session, so that all partitions are read in turn.
        """
        changed = [(target, data) for target, data in results if target.update_sent(data)]
        for target, data in changed:
            if data.records and self.targets.pop(target.key, None) is not None:
                self.targets[target.key] = target
        return changed


class FetchSessions:
    """The sessions of all clients. Their number and size are limited; a new session may evict others."""

    def __init__(self, slots_max: int, random: Random) -> None:
        self._slots_max = slots_max
        self._random = random
        self._sessions: dict[int, FetchSession] = {}  # The one used longest ago comes first.
        self.partitions = 0
        """The number of partitions in all sessions together."""
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def create(
        self, targets: list[FetchTarget], *, privileged: bool, uses_topic_ids: bool, now_ms: float
    ) -> FetchSession | None:
        """Create a session with these targets, and return it; return None if there is no room for it."""
        if not self._make_room(len(targets), privileged, now_ms):
            return None
        session_id = self._random.randint(1, INT32_MAX)
        while session_id in self._sessions:
            session_id = self._random.randint(1, INT32_MAX)
        session = FetchSession(session_id, privileged=privileged, uses_topic_ids=uses_topic_ids, now_ms=now_ms)
        session.targets = {target.key: target for target in targets}
        self._sessions[session_id] = session
        self.partitions += len(session.targets)
        return session

    def resume(self, request: FetchRequest, *, uses_topic_ids: bool, now_ms: float) -> FetchSession | None:
        """Return the session that an incremental request continues, updated by it; None if no partition is left in it.

        Raises KafkaError with Kafka's code if the request does not fit the session.
        """
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"no fetch session has the id {request.session_id}")
        if request.session_epoch != session.epoch:
            raise KafkaError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"epoch {request.session_epoch} for fetch session {session.id}; expected {session.epoch}",
            )
        if uses_topic_ids != session.uses_topic_ids:
            raise KafkaError(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
                f"fetch session {session.id} was begun {'with' if session.uses_topic_ids else 'without'} topic ids",
            )
        asked = sum(len(topic.partitions) for topic in request.topics)
        before = len(session.targets)
        if asked <= SESSION_PARTITIONS_MAX:
            session.update(request)
            self.partitions += len(session.targets) - before
        if max(asked, len(session.targets)) > SESSION_PARTITIONS_MAX or self.partitions > PARTITIONS_MAX:
            self.close(session.id)
            self.evictions += 1
            raise KafkaError(
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                f"fetch session {session.id} has grown too large and is closed: at most {SESSION_PARTITIONS_MAX} "
                f"partitions in one, {PARTITIONS_MAX} in all",
            )
        if not session.targets:
            self.close(session.id)
            return None
        session.epoch = 1 if session.epoch == INT32_MAX else session.epoch + 1
        session.used_at_ms = now_ms
        self._sessions[session.id] = self._sessions.pop(session.id)
        return session

    def close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partitions -= len(session.targets)

    def _make_room(self, size: int, privileged: bool, now_ms: float) -> bool:
        if size > SESSION_PARTITIONS_MAX:
            return False
        while len(self._sessions) >= self._slots_max or self.partitions + size > PARTITIONS_MAX:
            if not self._evict_one(size, privileged, now_ms):
                return False
        return True

    def _evict_one(self, size: int, privileged: bool, now_ms: float) -> bool:
        """Evict one session as in Kafka. Returns whether there was one to evict.

        A session that was unused for ``EVICTION_MS_MIN`` is evicted first. Otherwise it is the least valuable session
        that was used for that long and is less valuable than the new one. A follower's session is more valuable than a
        consumer's, and a larger one more than a smaller one.
        """
        oldest = next(iter(self._sessions.values()), None)
        if oldest is not None and now_ms - oldest.used_at_ms <= EVICTION_MS_MIN:
            candidates = [
                session
                for session in self._sessions.values()
                if session.used_at_ms - session.created_at_ms >= EVICTION_MS_MIN
                and (session.privileged, len(session.targets)) < (privileged, size)
            ]
            oldest = min(candidates, key=lambda session: (session.privileged, len(session.targets)), default=None)
        if oldest is None:
            return False
        self.close(oldest.id)
        self.evictions += 1
        return True


def targets_of(request: FetchRequest) -> list[FetchTarget]:
    return [
        FetchTarget(topic.topic, topic.topic_id, partition)
        for topic in request.topics
        for partition in topic.partitions
    ]
