"""Checks a history of sends and polls for violations of exactly-once, by the rules of Jepsen's Kafka workload.

The law: the check is a pure function, and every anomaly that it reports is real. A history is checked after the faults
have ended and read_committed consumers have polled everything. An operation whose outcome is not known (INFO) may have
happened or not; it counts as committed as soon as one of its values was read, and then all of them must be read.

| rule | anomaly | what is wrong |
|---|---|---|
| A0 | invented-read | a value was read that was never sent |
| A1 | inconsistent-offsets | an offset has two values |
| A2 | aborted-read | a value was read whose operation failed |
| A3 | lost-write | a committed value was never read, although readers have read beyond its offset |
| A4 | duplicate | a value is at two offsets |
| A5 | unseen | a committed value was never read |
| A6 | precommitted-read | an operation read what it had sent itself |
| A7, A8 | poll-skip, nonmonotonic-poll within an operation | a reader skipped a value, or went back |
| A9, A10 | the same, from one operation of a process to its next | |
| A11 | nonmonotonic-send | a value that a process sent later is at an earlier offset |
| A14 | circular-information-flow | operations read from each other in a cycle, or one read a value sent after its end |

A12 and A13 (interleaved writes of two transactions, and cycles of them) are not anomalies: Kafka's transactions do not
isolate writers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from semel.errors import AbortableError
from semel.testing.cycles import cycles
from semel.types import TopicPartition


class Outcome(StrEnum):
    """The outcome of an operation: it happened (OK), it did not and never will (FAIL), or that is not known (INFO)."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Sent:
    """A value that an operation sent. ``offset`` is ``None`` if the producer never received an acknowledgement."""

    partition: TopicPartition
    value: bytes
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Polled:
    partition: TopicPartition
    value: bytes
    offset: int


@dataclass(frozen=True, slots=True)
class CheckedOperation:
    """One operation of a process: a transaction with what it polled and sent, or one send, or some polls.

    The operations of one process are ordered by ``began_ms``. ``repositioned`` are the partitions that were assigned to
    the process, or in which it sought, since its last operation or during this one.
    """

    process: str
    outcome: Outcome
    actions: tuple[Sent | Polled, ...]
    began_ms: float = 0.0
    ended_ms: float = 0.0
    repositioned: frozenset[TopicPartition] = frozenset()

    def sent(self) -> Iterator[Sent]:
        return (action for action in self.actions if isinstance(action, Sent))

    def polled(self) -> Iterator[Polled]:
        return (action for action in self.actions if isinstance(action, Polled))


@dataclass(frozen=True, slots=True)
class Anomaly:
    rule: str
    name: str
    partition: TopicPartition | None
    what: str

    def __str__(self) -> str:
        return f"{self.rule} {self.name}{'' if self.partition is None else f' in {self.partition}'}: {self.what}"


def check(history: Sequence[CheckedOperation]) -> list[Anomaly]:
    """Return all anomalies of a history, ordered by rule. No two sends to a partition may have the same value."""
    facts = _Facts(sorted(history, key=lambda operation: operation.began_ms))
    return [anomaly for rule in _RULES for anomaly in rule(facts)]


def outcome_of(*, commit_attempted: bool, commit_error: BaseException | None, aborted: bool) -> Outcome:
    """Return the outcome of a transaction that a client ended. A wrong outcome would invent anomalies, or hide them.

    A transaction without an attempt to commit has failed, even if the abort was not acknowledged: only a timeout can
    end it then, which aborts it. A failed commit is FAIL only if the error was abortable and the client then aborted
    the transaction. Any other error, also one about a newer epoch, may be the response to a retry of a request whose
    first response was lost.
    """
    if not commit_attempted:
        return Outcome.FAIL
    if commit_error is None:
        return Outcome.OK
    return Outcome.FAIL if isinstance(commit_error, AbortableError) and aborted else Outcome.INFO


_Place: TypeAlias = tuple[TopicPartition, bytes]


@dataclass(slots=True)
class _Facts:
    history: Sequence[CheckedOperation]
    writers: dict[_Place, CheckedOperation] = field(default_factory=dict)
    readers: dict[_Place, list[CheckedOperation]] = field(default_factory=lambda: defaultdict(list))
    offsets: dict[TopicPartition, dict[int, set[bytes]]] = field(default_factory=lambda: defaultdict(dict))
    """The values at each offset of a partition, as read by readers or acknowledged to operations that have committed
    (Jepsen: the version order)."""
    indexes: dict[TopicPartition, dict[bytes, list[int]]] = field(default_factory=dict)
    """The indexes of a value in ``offsets``: its offsets, without the gaps of markers and aborted records."""
    index_at: dict[TopicPartition, dict[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for operation in self.history:
            for sent in operation.sent():
                place = sent.partition, sent.value
                if place in self.writers:
                    raise ValueError(f"{sent.value!r} was sent to {sent.partition} twice; values must be unique")
                self.writers[place] = operation
            for polled in operation.polled():
                self.readers[polled.partition, polled.value].append(operation)
                self.offsets[polled.partition].setdefault(polled.offset, set()).add(polled.value)
        for operation in self.history:
            if self.must_have_committed(operation):
                for sent in operation.sent():
                    if sent.offset is not None:
                        self.offsets[sent.partition].setdefault(sent.offset, set()).add(sent.value)
        for partition, values_at in self.offsets.items():
            self.index_at[partition] = {offset: index for index, offset in enumerate(sorted(values_at))}
            known: dict[bytes, list[int]] = defaultdict(list)
            for offset, index in self.index_at[partition].items():
                for value in values_at[offset]:
                    known[value].append(index)
            self.indexes[partition] = known

    def must_have_committed(self, operation: CheckedOperation) -> bool:
        if operation.outcome is Outcome.INFO:
            return any(self.was_read(sent.partition, sent.value) for sent in operation.sent())
        return operation.outcome is Outcome.OK

    def was_read(self, partition: TopicPartition, value: bytes) -> bool:
        return any(reader.outcome is Outcome.OK for reader in self.readers.get((partition, value), ()))

    def by_process(self) -> Iterable[list[CheckedOperation]]:
        processes: dict[str, list[CheckedOperation]] = defaultdict(list)
        for operation in self.history:
            processes[operation.process].append(operation)
        return processes.values()


def _offsets_with_two_values(facts: _Facts) -> Iterator[Anomaly]:
    for partition, values_at in facts.offsets.items():
        for offset, values in sorted(values_at.items()):
            if len(values) > 1:
                yield Anomaly("A1", "inconsistent-offsets", partition, f"offset {offset} has {sorted(values)}")


def _reads_of_what_was_not_committed(facts: _Facts) -> Iterator[Anomaly]:
    for (partition, value), readers in facts.readers.items():
        writer = facts.writers.get((partition, value))
        names = sorted({reader.process for reader in readers})
        if writer is None:
            yield Anomaly("A0", "invented-read", partition, f"{names} read {value!r}, which was never sent")
            continue
        if writer.outcome is Outcome.FAIL and facts.was_read(partition, value):
            yield Anomaly("A2", "aborted-read", partition, f"{names} read {value!r}, which {writer.process} took back")
        if any(reader is writer for reader in readers):
            yield Anomaly(
                "A6", "precommitted-read", partition, f"{writer.process} read its own {value!r} before it committed"
            )


def _values_at_two_offsets(facts: _Facts) -> Iterator[Anomaly]:
    for partition, indexes in facts.indexes.items():
        for value, found in sorted(indexes.items()):
            if len(found) > 1:
                offsets = [offset for offset, values in sorted(facts.offsets[partition].items()) if value in values]
                yield Anomaly("A4", "duplicate", partition, f"{value!r} is at the offsets {offsets}")


def _committed_and_not_read(facts: _Facts) -> Iterator[Anomaly]:
    read_up_to = {
        partition: max((found[0] for value, found in indexes.items() if facts.was_read(partition, value)), default=-1)
        for partition, indexes in facts.indexes.items()
    }
    for (partition, value), writer in facts.writers.items():
        if facts.must_have_committed(writer) and not facts.was_read(partition, value):
            found = facts.indexes.get(partition, {}).get(value)
            is_passed = found is not None and found[-1] <= read_up_to[partition]
            rule, name = ("A3", "lost-write") if is_passed else ("A5", "unseen")
            yield Anomaly(rule, name, partition, f"{value!r} of {writer.process} ({writer.outcome}) was never read")


def _polls_out_of_order(facts: _Facts) -> Iterator[Anomaly]:
    for operations in facts.by_process():
        last: dict[TopicPartition, Polled] = {}
        for operation in operations:
            within: dict[TopicPartition, Polled] = {}
            for polled in operation.polled():
                partition = polled.partition
                if partition not in operation.repositioned:
                    if partition in within:
                        yield from _step(facts, operation, within[partition], polled, ("A7", "A8"))
                    elif partition in last:
                        yield from _step(facts, operation, last[partition], polled, ("A9", "A10"))
                within[partition] = polled
            if operation.outcome is Outcome.OK:
                last |= within
            else:
                # A failed operation may be repeated or skipped: its process may continue at any position.
                last = {partition: polled for partition, polled in last.items() if partition not in within}


def _step(
    facts: _Facts, operation: CheckedOperation, before: Polled, after: Polled, rules: tuple[str, str]
) -> Iterator[Anomaly]:
    index_at = facts.index_at[after.partition]
    delta = index_at[after.offset] - index_at[before.offset]
    if delta != 1:
        skip, back = rules
        rule, name = (skip, "poll-skip") if delta > 1 else (back, "nonmonotonic-poll")
        what = f"{operation.process} read {after.value!r} at {after.offset} after {before.value!r} at {before.offset}"
        yield Anomaly(rule, name, after.partition, what)


def _sends_out_of_order(facts: _Facts) -> Iterator[Anomaly]:
    for operations in facts.by_process():
        last: dict[TopicPartition, Sent] = {}
        for operation in operations:
            if operation.outcome is Outcome.FAIL:
                continue
            for sent in operation.sent():
                offset = _offset_of(facts, sent)
                if offset is None:
                    continue
                before = last.get(sent.partition)
                if before is not None and before.offset is not None and offset <= before.offset:
                    what = (
                        f"{operation.process} sent {sent.value!r} to {offset} after {before.value!r} to {before.offset}"
                    )
                    yield Anomaly("A11", "nonmonotonic-send", sent.partition, what)
                last[sent.partition] = Sent(sent.partition, sent.value, offset)


def _offset_of(facts: _Facts, sent: Sent) -> int | None:
    """Return the offset of a value: as acknowledged to its producer, or else as it was read."""
    if sent.offset is not None:
        return sent.offset
    found = facts.indexes.get(sent.partition, {}).get(sent.value)
    return list(facts.index_at[sent.partition])[found[0]] if found else None


_BEGUN: Final = 0
_ENDED: Final = 1


def _circular_flow(facts: _Facts) -> Iterator[Anomaly]:
    """Return the cycles of the relations "one sent what the other read" and "one had ended when the other began".

    The graph has a chain of nodes for the instants of time, so that the number of edges grows with the number of
    operations and not with its square. An operation whose outcome is not known may still happen later, so it has no
    edge to a later operation.
    """
    number_of = {id(operation): number for number, operation in enumerate(facts.history)}
    edges: dict[int, set[int]] = {number: set() for number in number_of.values()}
    for place, readers in facts.readers.items():
        writer = facts.writers.get(place)
        if writer is not None:
            edges[number_of[id(writer)]].update(number_of[id(reader)] for reader in readers if reader is not writer)
    instants = sorted(
        # Beginnings sort before ends: an operation that ended at the very instant at which another began may not have
        # been over before.
        [(operation.began_ms, _BEGUN, number) for number, operation in enumerate(facts.history)]
        + [
            (operation.ended_ms, _ENDED, number)
            for number, operation in enumerate(facts.history)
            if operation.outcome is Outcome.OK
        ]
    )
    instant = len(facts.history)
    edges[instant] = set()
    for _, kind, number in instants:
        if kind == _BEGUN:
            edges[instant].add(number)
        else:
            edges[number].add(instant + 1)
            edges[instant].add(instant + 1)
            instant += 1
            edges[instant] = set()
    for circle in cycles(edges):
        names = [
            f"{operation.process} at {operation.began_ms:g} ms"
            for operation in (facts.history[number] for number in sorted(circle) if number < len(facts.history))
        ]
        yield Anomaly("A14", "circular-information-flow", None, " and ".join(names))


_RULES: Final = (
    _offsets_with_two_values,
    _reads_of_what_was_not_committed,
    _values_at_two_offsets,
    _committed_and_not_read,
    _polls_out_of_order,
    _sends_out_of_order,
    _circular_flow,
)
