"""Every state that one transactional id can get into, with two producers, two partitions and a few faults.

The coordinator is the real shard. Around it stands as little as there can be: the runtime's law (append and replay at
once; answer, and write markers, when the records are committed), partitions that know who wrote what and how it ended,
and producers that follow a script. What can go wrong is counted:

- a fault: a producer gives up waiting and sends its request again. The first copy arrives at any later time; if that
  is before the second one, it was the answer that was lost;
- a crash: another coordinator loads what was committed. Markers of the old one are still on their way;
- a timeout: the transaction that is open is aborted.

``moves`` says what can happen next, and raises ``Broken`` when a law does not hold: no decision is reversed; what a
transaction wrote is committed everywhere or nowhere; nobody is told what is not so, or what a crash takes back; who was
replaced decides nothing any more. ``check_quiet`` adds that nothing stays open once the faults have stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from semel.coordinator.decision import Decision
from semel.coordinator.moment import Moment
from semel.coordinator.transaction.records import Transaction, decode, encode
from semel.coordinator.transaction.results import WriteMarkers
from semel.coordinator.transaction.settings import TransactionSettings
from semel.coordinator.transaction.shard import TransactionShard
from semel.coordinator.transaction.states import TxnState
from semel.errors import ErrorCode
from semel.types import ProducerIdentity, TopicPartition
from tests.properties.coordinator.cluster_state import (
    Add,
    Answer,
    Broken,
    ClusterState,
    End,
    Entry,
    Init,
    Produce,
    Producer,
    Request,
    Tag,
    check_outcomes,
    check_quiet,
    check_record,
)

ID = "payments"
PARTITIONS = (TopicPartition("orders", 0), TopicPartition("orders", 1))
TIMEOUT_MS = 1000

What = tuple[object, ...]
"""In words, put together only if somebody wants to read them."""
Moves = Iterator[tuple[What, ClusterState]]


@dataclass(frozen=True)
class Scope:
    """What there is, and how much may go wrong."""

    transaction_version: int = 2
    """Of the producers; the cluster has V2."""
    scripts: tuple[tuple[tuple[int, ...], ...], ...] = (((0,), (0, 1)), ((0,),))
    """For every producer and each of its transactions, the partitions that it writes to."""
    first_epoch: int = 0
    faults: int = 2
    crashes: int = 1
    timeouts: int = 1
    commits_at_once: bool = False
    """What is appended is committed in the same move. (Otherwise in a later one, and a crash may come between.)"""


class Cluster:
    def __init__(self, scope: Scope, make_shard: Callable[..., TransactionShard] = TransactionShard) -> None:
        self.scope = scope
        self._make_shard = make_shard
        self._decide = lru_cache(maxsize=None)(self._decide_anew)
        self._restart = lru_cache(maxsize=None)(_restart)
        self._v2 = scope.transaction_version >= 2

    def start(self) -> ClusterState:
        scope = self.scope
        state = ClusterState(
            tuple(Producer(0, Init(index)) for index in range(len(scope.scripts))),
            faults=scope.faults,
            crashes=scope.crashes,
            timeouts=scope.timeouts,
        )
        if not scope.first_epoch:
            return state
        (created,) = self._decide(None, 0, "init").records
        return state._replace(committed=created._replace(producer_epoch=scope.first_epoch))

    def moves(self, state: ClusterState) -> Moves:
        """What happens by itself, sooner or later: messages arrive, records are committed."""
        for producer in state.producers:
            if producer.request is not None and not producer.delivered:
                yield from self._deliver(state, producer.request, awaited=True)
        for position, stray in enumerate(state.strays):
            strays = state.strays[:position] + state.strays[position + 1 :]
            for what, after in self._deliver(state._replace(strays=strays), stray, awaited=False):
                yield ("late:", *what), after
        if state.tail:
            yield from self._commit(state)
        for marker in state.markers:
            yield from self._write_marker(state, *marker)

    def faults(self, state: ClusterState) -> Moves:
        if state.faults:
            for producer in state.producers:
                if producer.request is not None and not producer.delivered:
                    # Nobody waits for the first copy any more: if it arrives before the second, its answer is lost.
                    strays = _sorted(*state.strays, producer.request)
                    yield (producer.request, "is sent again"), state._replace(strays=strays, faults=state.faults - 1)
        if state.crashes:
            yield ("crash",), self._crash(state)
        if state.timeouts and state.latest is not None and state.latest.state is TxnState.ONGOING:
            yield from self._time_out(state._replace(timeouts=state.timeouts - 1))

    def settle(self, state: ClusterState) -> None:
        """There are no more moves, and no more faults: nothing may stay open."""
        while state.latest is not None and state.latest.state is TxnState.ONGOING:
            _, state = next(self._time_out(state))
            while (following := next(self.moves(state), None)) is not None:
                _, state = following
        check_quiet(state, self.scope.scripts)

    # -- the coordinator

    def _decide_anew(self, latest: Transaction | None, coordinator_epoch: int, what: str, *arguments: Any) -> Entry:
        decision = self._ask_shard(latest, coordinator_epoch, what, *arguments)
        return Entry(decision.records, decision.effects, answer=_answer_of(decision.response))

    def _ask_shard(
        self, latest: Transaction | None, coordinator_epoch: int, what: str, *arguments: Any
    ) -> Decision[Any, Any, Any]:
        new_producer_id = 1000 if latest is None else latest.producer_id + 1
        shard = self._make_shard(
            partition=0,
            coordinator_epoch=coordinator_epoch,
            settings=TransactionSettings(),
            next_producer_id=lambda: new_producer_id,
        )
        if latest is not None:
            shard.replay(latest)
        match what:
            case "init":
                return shard.init_producer_id(
                    ID, TIMEOUT_MS, None, None, new_producer_id=new_producer_id, api_version=5, now_ms=0
                )
            case "add" | "verify":
                identity, partition = arguments
                return shard.add_partitions(
                    ID,
                    identity.producer_id,
                    identity.producer_epoch,
                    (PARTITIONS[partition],),
                    verify_only=what == "verify",
                    transaction_version=self.scope.transaction_version,
                    now_ms=0,
                )
            case "end":
                identity, committed = arguments
                return shard.end_txn(
                    ID,
                    identity.producer_id,
                    identity.producer_epoch,
                    committed,
                    transaction_version=self.scope.transaction_version,
                    new_producer_id=new_producer_id,
                    now_ms=0,
                )
            case "markers written":
                return shard.markers_written(ID, *arguments, now_ms=0)
            case "time out":
                (decision,) = shard.time_out(Moment(TIMEOUT_MS + 1, 0))
                return decision
            case "load":
                return shard.loaded(Moment(0, 0))
        raise AssertionError(what)

    def _ask(self, state: ClusterState, what: str, *arguments: Any) -> Entry:
        return self._decide(state.latest, state.coordinator_epoch, what, *arguments)

    def _appended(self, what: What, state: ClusterState, entry: Entry) -> Moves:
        if not state.tail and (self.scope.commits_at_once or not entry.records):
            for after in self._committed(state, entry):
                yield what, after
            return
        if entry.request is not None and entry.awaited:
            delivered = state.producers[entry.request.producer]._replace(delivered=True)
            state = state.with_producer(entry.request.producer, delivered)
        yield what, state._replace(tail=(*state.tail, entry))

    def _commit(self, state: ClusterState) -> Moves:
        """The oldest decision that waits is durable now."""
        entry, *tail = state.tail
        for after in self._committed(state._replace(tail=tuple(tail)), entry):
            yield ("committed",), after

    def _committed(self, state: ClusterState, entry: Entry) -> Iterator[ClusterState]:
        """Its markers are sent, and it is answered."""
        if entry.records:
            for before, after in pairwise((state.committed, *entry.records)):
                check_record(before, after)
            markers = state.markers | _sent(entry) if entry.effects else state.markers
            state = state._replace(committed=entry.records[-1], markers=markers)
        yield from self._answer(state, entry)

    def _crash(self, state: ClusterState) -> ClusterState:
        state = state._replace(
            committed=self._restart(state.committed),
            tail=(),
            coordinator_epoch=state.coordinator_epoch + 1,
            crashes=state.crashes - 1,
            producers=tuple(producer._replace(delivered=False) for producer in state.producers),
        )
        return state._replace(markers=state.markers | _sent(self._ask(state, "load")))

    def _time_out(self, state: ClusterState) -> Moves:
        yield from self._appended(("timeout",), state, self._ask(state, "time out"))

    # -- requests

    def _deliver(self, state: ClusterState, request: Request, *, awaited: bool) -> Moves:
        """The request arrives. ``awaited``: its producer has not given it up."""
        match request:
            case Init():
                entry = self._ask(state, "init")
            case Add(_, identity, partition):
                entry = self._ask(state, "add", identity, partition)
            case End(producer, identity, _, committed):
                entry = self._ask(state, "end", identity, committed)
                if entry.records and producer != state.owner:
                    raise Broken(f"producer {producer} decides, and {state.owner} has replaced it")
            case Produce(_, identity, partition, tag):
                log = state.partitions[partition]
                if identity.producer_epoch < log.epoch_of(identity.producer_id):
                    entry = Entry((), answer=Answer(ErrorCode.INVALID_PRODUCER_EPOCH))
                elif log.holds(tag) or (log.open is not None and log.open.identity == identity):
                    entry = Entry(())  # The coordinator knows.
                else:
                    entry = self._ask(state, "add" if self._v2 else "verify", identity, partition)
                entry = entry._replace(verified_at=log.markers)
        if entry.answer.error is ErrorCode.CONCURRENT_TRANSACTIONS:
            # Not answered before the transaction has moved on. Meanwhile the request is as if it had not arrived.
            if entry.records:
                waits = state if awaited else state._replace(strays=_sorted(*state.strays, request))
                yield from self._appended((request, "waits"), waits, entry)
            return
        yield from self._appended((request,), state, entry._replace(request=request, awaited=awaited))

    def _answer(self, state: ClusterState, entry: Entry) -> Iterator[ClusterState]:
        """What the decision was waited for with: append the record, tell the producer."""
        request = entry.request
        if request is None:
            yield state
            return
        answer = entry.answer
        if isinstance(request, Produce) and answer.error is ErrorCode.NONE:
            state, answer = self._append(state, request, entry.verified_at)
        producer = state.producers[request.producer]
        if not entry.awaited:
            yield state
            return
        if answer.error is not ErrorCode.NONE:
            yield state.with_producer(request.producer, Producer(producer.step, None))
            return
        identity = None if isinstance(request, Init) else request.identity
        if isinstance(request, Init):
            state = state._replace(owner=request.producer)
        if isinstance(request, End):
            state = state._replace(told=state.told | {(request.tag, request.committed)})
            check_outcomes(state)
        identity = answer.identity or identity
        assert identity is not None
        for following in self._requests(request.producer, producer.step + 1, identity):
            yield state.with_producer(request.producer, Producer(producer.step + 1, following))

    def _append(self, state: ClusterState, request: Produce, verified_at: int) -> tuple[ClusterState, Answer]:
        """The write itself, after the coordinator has said yes. Much may have happened since it was asked."""
        log = state.partitions[request.partition]
        if log.holds(request.tag):
            return state, Answer(ErrorCode.NONE)
        if request.identity.producer_epoch < log.epoch_of(request.identity.producer_id):
            return state, Answer(ErrorCode.INVALID_PRODUCER_EPOCH)
        if not self._v2 and log.markers != verified_at:
            return state, Answer(ErrorCode.INVALID_TXN_STATE)
        return state.with_partition(request.partition, log.append(request.identity, request.tag)), Answer()

    def _write_marker(self, state: ClusterState, index: int, marker: WriteMarkers) -> Moves:
        what = ("partition", index, "gets", marker)
        state = state._replace(markers=state.markers - {(index, marker)})
        log = state.partitions[index]
        if marker.coordinator_epoch < log.coordinator_epoch:
            yield what, state  # From a coordinator that was replaced: TRANSACTION_COORDINATOR_FENCED.
            return
        state = state.with_partition(index, log.end(marker))
        check_outcomes(state)
        acknowledged = all(sent != marker for _, sent in state.markers)
        if not acknowledged or marker.coordinator_epoch != state.coordinator_epoch:
            yield what, state
            return
        complete = self._ask(state, "markers written", marker.producer_id, marker.producer_epoch)
        yield from self._appended(what, state, complete)

    # -- producers

    def _requests(self, producer: int, step: int, identity: ProducerIdentity) -> Iterator[Request | None]:
        """What a producer may send at this step of its script: it ends a transaction as it likes."""
        steps = self._script(producer)
        if step == len(steps):
            yield None
            return
        what, number, partition = steps[step]
        tag = Tag(producer, number)
        match what:
            case "add":
                yield Add(producer, identity, partition)
            case "produce":
                yield Produce(producer, identity, partition, tag)
            case "end":
                yield End(producer, identity, tag, True)
                yield End(producer, identity, tag, False)

    def _script(self, producer: int) -> list[tuple[str, int, int]]:
        steps = [("init", 0, 0)]
        for number, partitions in enumerate(self.scope.scripts[producer]):
            for partition in partitions:
                steps += [("produce", number, partition)] if self._v2 else [("add", number, partition)]
                steps += [] if self._v2 else [("produce", number, partition)]
            steps.append(("end", number, 0))
        return steps


def _sent(entry: Entry) -> set[tuple[int, WriteMarkers]]:
    return {(PARTITIONS.index(partition), effect) for effect in entry.effects for partition in effect.partitions}


def _restart(committed: Transaction | None) -> Transaction | None:
    """What another coordinator reads."""
    if committed is None:
        return None
    read = decode(*encode(committed))
    if read != committed:
        raise Broken(f"{committed} is read as {read}")
    return committed


def _answer_of(response: Any) -> Answer:
    if not hasattr(response, "error"):
        return Answer()  # Nobody asked.
    refused = next(iter(getattr(response, "errors", {}).values()), response.error)
    if getattr(response, "producer_id", None) is None:
        return Answer(refused)
    return Answer(refused, ProducerIdentity(response.producer_id, response.producer_epoch))


def _sorted(*strays: Request) -> tuple[Request, ...]:
    return tuple(sorted(strays, key=repr))
