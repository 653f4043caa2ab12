"""What a transactional id should do, told in other words than the shard's: a handful of facts and no records.

The facts are those that a producer could state: which identity is good, which one is merely late and will be answered
again, what is open, what is being decided, how the last one ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from semel.errors import ErrorCode
from semel.types import TopicPartition

EPOCH_LAST = 32766
Identity = tuple[int, int]
Answer = tuple[ErrorCode, Identity | None]


def refused(error: ErrorCode) -> Answer:
    return error, None


WAIT = refused(ErrorCode.CONCURRENT_TRANSACTIONS)
FENCED = refused(ErrorCode.PRODUCER_FENCED)
WRONG = refused(ErrorCode.INVALID_TXN_STATE)
UNKNOWN = refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
DONE: Answer = (ErrorCode.NONE, None)


@dataclass
class Known:
    """One transactional id."""

    good: Identity
    timeout_ms: int
    late: Identity | None = None
    """Its last request may be repeated, and is answered with ``good``."""
    late_has_ended: bool = False
    """... and that request was the end of a transaction."""
    partitions: set[TopicPartition] = field(default_factory=set)
    opened_ms: int | None = None
    deciding: bool = False
    committed: bool | None = None
    """How the last transaction ended, or is being ended. ``None`` before the first, and after InitProducerId."""
    used_ms: int = 0
    after: Identity | None = None
    """While deciding: what is good afterwards."""
    rotated: Identity | None = None
    """The last identity of another producer id, if the one that is good has come in its place just now."""

    # -- requests

    def init(self, identity: Identity | None, new_producer_id: int, timeout_ms: int, now_ms: int) -> Answer:
        if self.deciding:
            return WAIT
        if identity not in (None, self.good):
            return (ErrorCode.NONE, self.good) if identity == self.late and self.opened_ms is None else FENCED
        if self.opened_ms is not None:
            self._decide(False, now_ms, bump=True, new_producer_id=new_producer_id)
            self.late = self.good if identity is not None else None
            return WAIT
        self.late = identity
        self.late_has_ended = False
        self._go_on_with(self._bumped(new_producer_id))
        self.committed = None
        self.timeout_ms = timeout_ms
        self.used_ms = now_ms
        return ErrorCode.NONE, self.good

    def add(self, identity: Identity, partitions: set[TopicPartition], now_ms: int) -> Answer:
        if self.deciding:
            return WAIT
        if (error := self._refusal(identity)) is not None:
            return error
        if partitions - self.partitions:
            self.partitions |= partitions
            self.opened_ms = now_ms if self.opened_ms is None else self.opened_ms
            self.late = self.rotated = None
            self.used_ms = now_ms
        return DONE

    def end_v1(self, identity: Identity, committed: bool, now_ms: int) -> Answer:
        good = self._while_deciding() if self.deciding else self.good
        if (error := _compare(identity, good)) is not None:
            return error
        if self.deciding:
            return WAIT
        if self.opened_ms is None:
            return DONE if self.committed is committed else WRONG
        self._decide(committed, now_ms, bump=False, new_producer_id=0)
        self.late_has_ended = False
        return DONE

    def end_v2(self, identity: Identity, committed: bool, new_producer_id: int, now_ms: int) -> Answer:
        if self.deciding:
            return WAIT
        if identity == self.late and self.late_has_ended:
            return (ErrorCode.NONE, self.good) if committed is self.committed else WRONG
        if identity == self.rotated:
            return FENCED
        if (error := self._refusal(identity)) is not None:
            return error
        if self.opened_ms is None and committed:
            return WRONG
        was_open = self.opened_ms is not None
        self._decide(committed, now_ms, bump=True, new_producer_id=new_producer_id)
        self.late = identity
        answer = (ErrorCode.NONE, self.after)
        if not was_open:
            self.complete(now_ms)
        return answer

    # -- the coordinator

    def times_out(self, now_ms: int) -> bool:
        return not self.deciding and self.opened_ms is not None and self.opened_ms + self.timeout_ms < now_ms

    def time_out(self, new_producer_id: int, now_ms: int) -> None:
        self.late = self.good
        self._decide(False, now_ms, bump=True, new_producer_id=new_producer_id)

    def complete(self, now_ms: int) -> None:
        assert self.after is not None
        self._go_on_with(self.after)
        self.after = None
        self.deciding = False
        self.partitions = set()
        self.opened_ms = None
        self.used_ms = now_ms

    def expires(self, now_ms: int, expiration_ms: int) -> bool:
        return self.opened_ms is None and not self.deciding and self.used_ms + expiration_ms <= now_ms

    def marker_identity(self) -> Identity:
        assert self.after is not None
        producer_id, epoch = self.good
        return self.good if self.after == self.good else (producer_id, epoch + 1)

    # -- inside

    def _decide(self, committed: bool, now_ms: int, *, bump: bool, new_producer_id: int) -> None:
        self.deciding = True
        self.committed = committed
        self.late_has_ended = bump
        self.after = self._bumped(new_producer_id) if bump else self.good
        self.opened_ms = self.opened_ms if self.opened_ms is not None else now_ms
        self.used_ms = now_ms

    def _go_on_with(self, identity: Identity) -> None:
        self.rotated = self.good if identity[0] != self.good[0] else None
        self.good = identity

    def _bumped(self, new_producer_id: int) -> Identity:
        producer_id, epoch = self.good
        return (new_producer_id, 0) if epoch == EPOCH_LAST else (producer_id, epoch + 1)

    def _while_deciding(self) -> Identity:
        """V1 looks at the identity first: that of the markers."""
        return self.marker_identity()

    def _refusal(self, identity: Identity) -> Answer | None:
        return _compare(identity, self.good)


def _compare(identity: Identity, good: Identity) -> Answer | None:
    if identity[0] != good[0]:
        return UNKNOWN
    return None if identity[1] == good[1] else FENCED
