"""The state of a transactional producer: what may be called now, which step comes next, what went wrong.

It sends nothing itself: ``next_step`` returns what to request, ``coordination`` sends it and reports back. A step is
derived from the state alone, so a request that was lost is simply sent again.

The law: an outcome that was asked for is pursued until it is known. A commit that timed out for its caller goes on
here; another call of it waits for the same outcome, and an abort is refused until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NoReturn

from semel.client.machine.connection.promise import Promise
from semel.client.machine.producer.sequences import TRANSACTIONS_V1, TRANSACTIONS_V2, Identity
from semel.client.machine.transaction.states import LEGAL_SOURCES, LEGAL_SOURCES_ATTACHED, TransactionState
from semel.client.machine.transaction.steps import (
    AddOffsets,
    AddPartitions,
    CommitOffsets,
    EndTransaction,
    InitProducerId,
    Step,
)
from semel.client.values import GroupMetadata, OffsetAndMetadata, ProducerIdentity
from semel.errors import AbortableError, ErrorCode, FatalError, KafkaError, StateError
from semel.types import TopicPartition

_S: Final = TransactionState


class Transaction:
    def __init__(self, transactional_id: str, *, features: Callable[[], Mapping[str, int]]) -> None:
        self.transactional_id = transactional_id
        self.state = _S.UNINITIALIZED
        self.error: KafkaError | None = None
        self.is_attached = False
        self._features = features
        self._identity: Identity | None = None
        self._version = TRANSACTIONS_V2
        self._started = self._is_shared = False
        self._bump_needed = False
        self._partitions: dict[TopicPartition, bool] = {}
        """V1: the partitions of this transaction, and whether the coordinator has added them."""
        self._groups: dict[str, None] = {}
        self._offsets: list[CommitOffsets] = []
        self._promise: Promise[None] = Promise()

    # What the application calls

    def init(self) -> Promise[None]:
        """Take over the transactional id, or continue to wait for that."""
        if self.state is not _S.INITIALIZING:
            self._require("init", _S.UNINITIALIZED)
            self._move(_S.INITIALIZING)
        return self._promise

    def bump_epoch(self) -> Promise[None]:
        """Fence all that still write under this producer's epoch, or continue to wait for that."""
        if not self._is_resuming:
            self._require("bump_epoch", _S.READY)
            self._move(_S.INITIALIZING)
        return self._promise

    def attach(self, identity: Identity, version: int, *, is_idle: bool) -> None:
        """Write within a transaction that another producer owns, from sequence 0 on."""
        if self.state is not _S.UNINITIALIZED and not self.is_attached:
            self._refuse("attach", "it has an identity of its own")
        if self.state is _S.FATAL_ERROR:
            self.raise_error()
        if not is_idle:
            self._refuse("attach", "what was sent before is not settled yet: flush first")
        if identity == self._identity:
            self._refuse("attach", f"it writes as {identity} already, and its sequences would begin again")
        self.is_attached = True
        self._identity, self._version = identity, version
        self._begin()

    def begin(self) -> None:
        self._require("begin", _S.READY)
        self._version = self._offered_version()
        self._begin()

    def send_offsets(self, group: GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Promise[None]:
        self._require("send_offsets", _S.IN_TRANSACTION)
        step = CommitOffsets(group, dict(offsets))
        if offsets:
            self._offsets.append(step)
        else:
            step.promise.fulfil(None)
        return step.promise

    def commit(self) -> Promise[None]:
        """Commit once everything that was sent is settled, or continue to wait for that."""
        if self.state is not _S.COMMITTING:
            self._require("commit", _S.IN_TRANSACTION)
            self._move(_S.COMMITTING)
        return self._promise

    def abort(self) -> Promise[None]:
        if self.state is not _S.ABORTING and not self._is_resuming:
            self._require("abort", _S.IN_TRANSACTION, _S.ABORTABLE_ERROR)
            self._move(_S.ABORTING)
            self._fail_offsets(AbortableError(ErrorCode.TRANSACTION_ABORTABLE, "the transaction was aborted"))
        return self._promise

    def conclude(self) -> Promise[None] | None:
        """Before closing, wait for the outcome that was asked for, or abort. ``None``: there is nothing to end."""
        match self.state:
            case _S.COMMITTING:
                return self.commit()
            case _S.IN_TRANSACTION | _S.ABORTABLE_ERROR | _S.ABORTING:
                return self.abort()
            case _:
                return None

    def check_may_send(self) -> None:
        if self.state is not _S.IN_TRANSACTION:
            self._require("send", _S.IN_TRANSACTION)

    @property
    def producer_identity(self) -> ProducerIdentity:
        if self._identity is None:
            self._refuse("identity", "there is none before init")
        return ProducerIdentity(*self._identity, self._version)

    def hand_out_identity(self) -> ProducerIdentity:
        """Return the identity for another producer to attach to. From then on the transaction may have its records."""
        identity = self.producer_identity
        self._is_shared = not self.is_attached
        return identity

    def raise_error(self) -> NoReturn:
        """Raise the error of this state, as a new exception each time."""
        assert self.error is not None
        raise type(self.error)(self.error.code, self.error.message) from self.error

    @property
    def current_identity(self) -> Identity | None:
        return self._identity

    # Numbering

    @property
    def transaction_version(self) -> int:
        return self._version

    def identity(self) -> Identity | None:
        return self._identity if self.state in (_S.IN_TRANSACTION, _S.COMMITTING) else None

    def may_send(self, topic_partition: TopicPartition) -> bool:
        if self.state not in (_S.IN_TRANSACTION, _S.COMMITTING):
            return False
        return self._version >= TRANSACTIONS_V2 or self._partitions.setdefault(topic_partition, False)

    def sent(self) -> None:
        """Note that a request of this transaction is sent: from now on it may have to be ended."""
        self._started = True

    def failed(self, error: Exception, *, was_numbered: bool) -> None:
        assert isinstance(error, KafkaError)
        # Its sequences are a gap that only a new epoch closes. Under V2 the end of every transaction brings a new one.
        self._bump_needed |= was_numbered
        if isinstance(error, FatalError):
            self.fatal(error)
        else:
            self.abortable(error)

    def unresolved(self, topic_partition: TopicPartition, reason: str) -> None:
        """Do nothing: the batch that failed has ended this transaction, and with it this epoch."""

    # What coordination asks and reports

    @property
    def is_ending(self) -> bool:
        return self.state in (_S.COMMITTING, _S.ABORTING)

    @property
    def drops_batches(self) -> bool:
        """Whether batches that were not sent yet are dropped."""
        return self.state in (_S.ABORTABLE_ERROR, _S.ABORTING)

    def next_step(self, *, is_settled: bool) -> Step | None:
        """Return the step to request now. ``is_settled``: no record of this transaction is in flight or waiting."""
        match self.state:
            case _S.INITIALIZING:
                return InitProducerId(resume=self._identity)
            case _S.IN_TRANSACTION | _S.COMMITTING:
                step = self._next_addition()
                if step is None and self.state is _S.COMMITTING and is_settled:
                    return self._next_end(committed=True)
                return step
            case _S.ABORTING if is_settled:
                return self._next_end(committed=False)
            case _:
                return None

    def initialized(self, identity: Identity) -> None:
        self._identity = identity
        self._version = self._offered_version()
        self._finish()

    def partitions_added(self, partitions: Iterable[TopicPartition]) -> None:
        self._partitions.update(dict.fromkeys(partitions, True))

    def group_added(self, group_id: str) -> None:
        self._groups[group_id] = None

    def offsets_committed(self, step: CommitOffsets) -> None:
        """Note that the coordinator has accepted all offsets of this step."""
        if step in self._offsets:
            self._offsets.remove(step)
        step.promise.fulfil(None)

    def ended(self, identity: Identity | None) -> None:
        """Note that the coordinator has decided. Under V2 its response has the identity for the next transaction."""
        if identity is not None:
            self._identity = identity
        elif self._bump_needed:
            self.abort_by_init()
            return
        self._finish()

    def nothing_to_end(self) -> bool:
        """Handle a coordinator that knows no transaction. Returns whether that is right: nothing was written."""
        if self._started or not self._is_shared:
            return False
        self.ended(None)
        return True

    def abort_by_init(self) -> None:
        """Bump this producer's own epoch, by which the coordinator ends whatever transaction it knows of it."""
        self._move(_S.INITIALIZING)

    def abortable(self, error: KafkaError) -> None:
        """Note that the transaction can only be aborted."""
        if self.state not in (_S.IN_TRANSACTION, _S.COMMITTING):
            return
        self._move(_S.ABORTABLE_ERROR)
        self.error = error if isinstance(error, AbortableError) else _as_abortable(error)
        self._fail_offsets(self.error)
        self._promise.fail(self.error)
        self._promise = Promise()

    def fatal(self, error: KafkaError) -> None:
        if self.state is _S.FATAL_ERROR:
            return
        self._move(_S.FATAL_ERROR)
        self.error = error
        self._fail_offsets(error)
        self._promise.fail(error)

    # Inside

    @property
    def _is_resuming(self) -> bool:
        return self.state is _S.INITIALIZING and self._identity is not None

    def _offered_version(self) -> int:
        """Return the cluster's transaction version. It is fixed when a transaction begins: V1 stays V1 to its end."""
        return TRANSACTIONS_V2 if self._features().get("transaction.version", 0) >= TRANSACTIONS_V2 else TRANSACTIONS_V1

    def _begin(self) -> None:
        self._move(_S.IN_TRANSACTION)
        self._started = self._bump_needed = self._is_shared = False
        self.error = None
        self._partitions.clear()
        self._groups.clear()

    def _finish(self) -> None:
        self._move(_S.READY)
        self.error = None
        promise, self._promise = self._promise, Promise()
        promise.fulfil(None)

    def _next_addition(self) -> Step | None:
        if self._version < TRANSACTIONS_V2:
            unknown = tuple(partition for partition, known in self._partitions.items() if not known)
            if unknown:
                return AddPartitions(unknown)
        if not self._offsets:
            return None
        step = self._offsets[0]
        if self._version < TRANSACTIONS_V2 and step.group.group_id not in self._groups:
            return AddOffsets(step.group.group_id)
        return step

    def _next_end(self, *, committed: bool) -> Step | None:
        if self._started or self._is_shared:
            return EndTransaction(committed)
        # The coordinator does not know this transaction: there is nothing to end.
        self.ended(None)
        return None

    def _fail_offsets(self, error: KafkaError) -> None:
        offsets, self._offsets = self._offsets, []
        for step in offsets:
            step.promise.fail(error)

    def _move(self, target: TransactionState) -> None:
        table = LEGAL_SOURCES_ATTACHED if self.is_attached else LEGAL_SOURCES
        assert self.state in table[target], f"{self.state.name} cannot become {target.name}"
        self.state = target

    def _require(self, call: str, *states: TransactionState) -> None:
        if self.is_attached and call not in ("attach", "send"):
            self._refuse(call, "it is attached to a transaction of another producer, and only that one can do this")
        if self.state in states:
            return
        if self.error is not None and self.state in (_S.FATAL_ERROR, _S.ABORTABLE_ERROR):
            self.raise_error()
        if self.state is _S.COMMITTING and call == "abort":
            self._refuse(call, "the commit may have happened already: call commit again, to know")
        allowed = " or ".join(state.value for state in states)
        self._refuse(call, f"that takes the state {allowed}")

    def _refuse(self, call: str, why: str) -> NoReturn:
        raise StateError(f"{call}: producer {self.transactional_id!r} is {self.state.value}: {why}")


def _as_abortable(error: KafkaError) -> AbortableError:
    """Return an abortable error: the transaction lacks what has failed, so it cannot be committed."""
    abortable = AbortableError(error.code, f"{error.message}. Abort the transaction; the producer can go on")
    abortable.__cause__ = error
    return abortable
