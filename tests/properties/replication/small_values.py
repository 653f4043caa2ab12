"""What a small cluster consists of: values that are compared and hashed, and the log that the real decisions read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from typing import NamedTuple

from semel.log.leader_epochs import LeaderEpochs
from semel.metadata.image import PartitionState
from semel.wire.records import Record, build_batch, iterate_records, read_header

REPLICAS = (1, 2, 3)


class Broken(AssertionError):
    """A law does not hold."""


class Mistake(Enum):
    """What the code around the pure core could do wrong."""

    EPOCH_ENTERED_AT_THE_IMAGE = auto()
    FETCH_BEFORE_THE_SYNC = auto()
    FOLLOWS_BEFORE_THE_SYNC = auto()
    FETCH_CONFIRMS_WHAT_IT_DID_NOT_ANSWER = auto()
    DIVERGING_FETCH_IS_PROGRESS = auto()
    LOST_DISK_STAYS_IN_SYNC = auto()
    REGISTRATION_KEEPS_THE_LEADER_EPOCH = auto()
    JOIN_IGNORES_REGISTRATIONS = auto()
    IN_SYNC_CHANGE_IGNORES_THE_VERSION = auto()
    TERM_BEGINS_AT_THE_LOG_END = auto()
    LATE_ANSWER_COUNTS_FOR_THE_PRESENT = auto()


class Written(NamedTuple):
    """One record, in a batch of its own. ``number`` tells it from all others."""

    epoch: int
    number: int


class Log(NamedTuple):
    """One replica's log. What lies at or above ``durable`` is lost in a crash."""

    records: tuple[Written, ...] = ()
    epochs: tuple[tuple[int, int], ...] = ()
    durable: int = 0
    high_watermark: int = 0

    def with_epoch(self, epoch: int) -> Log:
        epochs = LeaderEpochs(self.epochs)
        epochs.assign(epoch, len(self.records))
        return self._replace(epochs=tuple(epochs.entries))

    def appended(self, *records: Written) -> Log:
        log = self
        for record in records:
            log = log.with_epoch(record.epoch)
            log = log._replace(records=(*log.records, record))
        return log

    def synced(self) -> Log:
        return self._replace(durable=len(self.records))

    def truncated(self, offset: int) -> Log:
        epochs = LeaderEpochs(self.epochs)
        epochs.truncate_from_end(offset)
        return Log(
            self.records[:offset],
            tuple(epochs.entries),
            min(self.durable, offset),
            min(self.high_watermark, offset),
        )

    def after_crash(self) -> Log:
        """What was synced; the stored high watermark may be as old as the log itself."""
        return self.truncated(self.durable)._replace(high_watermark=0)


class LogView:
    """A log as ``replication.follower`` asks about it."""

    log_start_offset = 0

    def __init__(self, log: Log) -> None:
        self._epochs = LeaderEpochs(log.epochs)
        self.log_end_offset = len(log.records)
        self.high_watermark = log.high_watermark

    @property
    def latest_epoch(self) -> int | None:
        return self._epochs.latest

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int] | None:
        return self._epochs.end_offset_for(epoch, self.log_end_offset)


class Store(NamedTuple):
    """The metadata store: the partition, and the broker epoch of each broker that is registered."""

    partition: PartitionState
    registered: tuple[int | None, ...]


class Term(NamedTuple):
    epoch: int
    replicas: tuple[object, ...]
    """The ``ReplicaSet``, as a value."""


class Node(NamedTuple):
    """A broker. ``broker_epoch`` is ``None`` while it is no member; ``view`` is the store as it last saw it."""

    log: Log
    view: Store
    broker_epoch: int | None
    registrations: int = 1
    term: Term | None = None
    mark: int = 0
    """Of the last answer that it got in this epoch: its next Fetch replies to that."""
    is_alive: bool = True
    has_lost_disk: bool = False
    """Its disk is another one than when it was last registered."""


class Fetch(NamedTuple):
    """A Fetch that arrives late, and whose answer no one reads."""

    follower: int
    leader: int
    epoch: int
    offset: int
    last_fetched_epoch: int | None
    broker_epoch: int
    mark: int


class Answer(NamedTuple):
    """A leader's answer that arrives late: its follower has asked again meanwhile."""

    follower: int
    leader: int
    epoch: int
    offset: int
    last_fetched_epoch: int | None
    diverging_epoch: tuple[int, int] | None
    high_watermark: int
    records: bytes


class Proposal(NamedTuple):
    """A change of the in-sync set on its way to the store: over this state, if those that join are registered so."""

    leader: int
    epoch: int
    before: PartitionState
    isr: frozenset[int]
    joining: tuple[tuple[int, int | None], ...]


class Committed(NamedTuple):
    offset: int
    record: Written


class Observed(NamedTuple):
    """What clients were told, which nothing may make untrue."""

    committed: frozenset[Committed] = frozenset()
    """What lay below the high watermark of a leader: consumers have read it, and its producer was told if it was the
    leader that the producer asked.
    """
    told: tuple[tuple[int, int], ...] = ()
    """For each leader epoch, a leader that told a high watermark and the highest that it told."""
    disks_lost: frozenset[int] = frozenset()


class Budget(NamedTuple):
    """How much may still happen."""

    records: int = 1
    crashes: int = 0
    lost_disks: int = 0
    """Of the crashes, how many may take the disk away."""
    expiries: int = 0
    """Of sessions whose broker lives; one that is dead may always expire."""
    delays: int = 0
    """Fetches that arrive once more."""
    late_answers: int = 0
    shrinks: int = 0
    """Proposals because of a lag."""
    moves: int = 0
    """Of the leader, on purpose."""
    tickets: int = 0
    epochs: int = 2
    """Leader epochs, with the first one."""


@dataclass(frozen=True)
class Scope:
    """What there is at the beginning, and how much may happen."""

    budget: Budget
    leader: int = 1
    isr: tuple[int, ...] = REPLICAS
    min_insync_replicas: int = 2


@cache
def batch(offset: int, record: Written) -> bytes:
    """The record as a leader sends it."""
    value = b"%d" % record.number
    return build_batch([Record(offset, 0, None, value)], base_offset=offset, partition_leader_epoch=record.epoch)


@cache
def read(sent: bytes) -> tuple[Written, ...]:
    """What a follower finds in a sound answer: one batch, or nothing."""
    if not sent:
        return ()
    (record,) = iterate_records(sent)
    return (Written(read_header(sent).partition_leader_epoch, int(record.value or b"")),)
