"""A whole cluster as one value, small enough that every state it can reach is visited: see ``small_cluster``."""

from __future__ import annotations

from typing import NamedTuple

from semel.coordinator.transaction.records import Transaction
from semel.coordinator.transaction.results import WriteMarkers
from semel.coordinator.transaction.states import LEGAL_SOURCES, PREPARED
from semel.errors import ErrorCode
from semel.types import ProducerIdentity


class Broken(AssertionError):
    """A law does not hold."""


class Tag(NamedTuple):
    """Which transaction, of which producer."""

    producer: int
    number: int


# -- what producers send


class Init(NamedTuple):
    producer: int


class Add(NamedTuple):
    """AddPartitionsToTxn, which only producers of V1 send."""

    producer: int
    identity: ProducerIdentity
    partition: int


class Produce(NamedTuple):
    producer: int
    identity: ProducerIdentity
    partition: int
    tag: Tag


class End(NamedTuple):
    producer: int
    identity: ProducerIdentity
    tag: Tag
    committed: bool


Request = Init | Add | Produce | End


class Answer(NamedTuple):
    error: ErrorCode = ErrorCode.NONE
    identity: ProducerIdentity | None = None
    """What the producer goes on with, if it changes."""


class Producer(NamedTuple):
    step: int
    request: Request | None
    """What it waits for; ``None`` once it is done, or has met an error and given up."""
    delivered: bool = False
    """The request has arrived, and its answer waits for the log."""


# -- partitions


class Open(NamedTuple):
    identity: ProducerIdentity
    tags: frozenset[Tag]


class Partition(NamedTuple):
    """One partition's log, as far as transactions go."""

    epochs: tuple[tuple[int, int], ...] = ()
    coordinator_epoch: int = 0
    open: Open | None = None
    ended: frozenset[tuple[Tag, bool]] = frozenset()
    markers: int = 0
    """How many have come. Before a marker, a verification of V1 says nothing about what comes after it."""

    def epoch_of(self, producer_id: int) -> int:
        return dict(self.epochs).get(producer_id, -1)

    def holds(self, tag: Tag) -> bool:
        return (self.open is not None and tag in self.open.tags) or any(tag == ended for ended, _ in self.ended)

    def append(self, identity: ProducerIdentity, tag: Tag) -> Partition:
        tags = self.open.tags if self.open is not None else frozenset()
        return self._replace(open=Open(identity, tags | {tag}), epochs=self._with_epoch(identity))

    def end(self, marker: WriteMarkers) -> Partition:
        """Close what the producer has open. Where there is nothing, a marker changes nothing but the epochs."""
        identity = ProducerIdentity(marker.producer_id, marker.producer_epoch)
        after = self._replace(epochs=self._with_epoch(identity), coordinator_epoch=marker.coordinator_epoch)
        if self.open is None or self.open.identity.producer_id != marker.producer_id:
            return after
        ended = {(tag, marker.committed) for tag in self.open.tags}
        return after._replace(open=None, ended=self.ended | ended, markers=self.markers + 1)

    def _with_epoch(self, identity: ProducerIdentity) -> tuple[tuple[int, int], ...]:
        return tuple(sorted({**dict(self.epochs), identity.producer_id: identity.producer_epoch}.items()))


# -- the coordinator


class Entry(NamedTuple):
    """A decision that is appended and not yet committed. Nobody has heard of it."""

    records: tuple[Transaction, ...]
    effects: tuple[WriteMarkers, ...] = ()
    request: Request | None = None
    awaited: bool = False
    answer: Answer = Answer()
    verified_at: int = 0


class ClusterState(NamedTuple):
    producers: tuple[Producer, ...]
    committed: Transaction | None = None
    tail: tuple[Entry, ...] = ()
    coordinator_epoch: int = 0
    markers: frozenset[tuple[int, WriteMarkers]] = frozenset()
    """On their way, each to one partition."""
    partitions: tuple[Partition, ...] = (Partition(), Partition())
    strays: tuple[Request, ...] = ()
    """Requests that were given up by their producer, and arrive at any time or never."""
    told: frozenset[tuple[Tag, bool]] = frozenset()
    """Who was told of which outcome."""
    owner: int | None = None
    """The producer that was last told that the transactional id is its own."""
    faults: int = 0
    crashes: int = 0
    timeouts: int = 0

    @property
    def latest(self) -> Transaction | None:
        """What the shard has replayed, committed or not."""
        for entry in reversed(self.tail):
            if entry.records:
                return entry.records[-1]
        return self.committed

    def with_producer(self, index: int, producer: Producer) -> ClusterState:
        return self._replace(producers=(*self.producers[:index], producer, *self.producers[index + 1 :]))

    def with_partition(self, index: int, partition: Partition) -> ClusterState:
        return self._replace(partitions=(*self.partitions[:index], partition, *self.partitions[index + 1 :]))


# -- the laws


def check_record(before: Transaction | None, after: Transaction | None) -> None:
    """No decision is reversed."""
    if before is None or after is None:
        return
    if before.state not in LEGAL_SOURCES[after.state]:
        raise Broken(f"{before.state.name} became {after.state.name}")
    if before.state in PREPARED and before.partitions and after.partitions:
        raise Broken(f"{after.state.name} still has partitions")
    if after.state in PREPARED and after.partitions != before.partitions:
        raise Broken(f"{after.state.name} has other partitions than what it ends")


def check_outcomes(state: ClusterState) -> None:
    """All markers agree, with each other and with what producers were told."""
    outcomes = {outcome for partition in state.partitions for outcome in partition.ended} | state.told
    for tag, committed in outcomes:
        if (tag, not committed) in outcomes:
            raise Broken(f"{tag} is committed here and aborted there")


def check_quiet(state: ClusterState, scripts: tuple[tuple[tuple[int, ...], ...], ...]) -> None:
    """Nothing stays open, and what was told to be committed is all there."""
    assert state.latest is not None
    if any(partition.open is not None for partition in state.partitions):
        raise Broken("a partition has a transaction open that nobody will end")
    if state.latest.partitions:
        raise Broken(f"the coordinator does not get on from {state.latest.state.name}")
    for tag, committed in state.told:
        for partition in scripts[tag.producer][tag.number]:
            if committed and (tag, True) not in state.partitions[partition].ended:
                raise Broken(f"{tag} was told to be committed, and is missing on partition {partition}")
