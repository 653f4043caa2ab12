"""The steps of a transaction, requested from the coordinators one at a time until they are done.

One request is in flight at a time, because the steps of a transaction build on each other. What an error code means is
decided here, code by code; a code that is not named here is handled as its family says.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final, TypeVar, assert_never

from semel.client.config.producer import ProducerConfig
from semel.client.machine.connection.calls import Call
from semel.client.machine.connection.connections import Connections
from semel.client.machine.connection.coordinators import CoordinatorKey, CoordinatorLookup, CoordinatorType
from semel.client.machine.connection.retry import Backoff, Retry, markers_backoff
from semel.client.machine.producer.sequences import TRANSACTIONS_V2, Identity
from semel.client.machine.transaction import steps
from semel.client.machine.transaction.requests import (
    RequestOf,
    add_offsets_request,
    add_partitions_request,
    commit_offsets_request,
    end_request,
    init_request,
    offset_codes,
    partition_codes,
)
from semel.client.machine.transaction.transaction import Transaction
from semel.clock import NEVER
from semel.errors import AbortableError, ErrorCode, Family, KafkaError, client_error, family_of, named
from semel.wire.apis import ApiKey

S = TypeVar("S", steps.InitProducerId, steps.AddPartitions, steps.AddOffsets, steps.CommitOffsets, steps.EndTransaction)


_RESUME_SINCE: Final = 3
# The lowest version of TxnOffsetCommit and of EndTxn, the only requests of a transaction that V2 sends.
_V2_VERSION_MIN: Final = 5
_V1_VERSION_MAX: Final = {
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.ADD_OFFSETS_TO_TXN: 4,
    ApiKey.TXN_OFFSET_COMMIT: 4,
    ApiKey.END_TXN: 4,
}

_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
# The coordinator does not know the transaction to be aborted, or no longer: bumping the epoch settles it either way.
_NOTHING_TO_ABORT: Final = frozenset(
    {ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.UNKNOWN_PRODUCER_ID, *_FENCED}
)


class Coordination:
    def __init__(
        self,
        config: ProducerConfig,
        transaction: Transaction,
        connections: Connections,
        coordinators: CoordinatorLookup,
        random: Random,
    ) -> None:
        self._config = config
        self._transaction = transaction
        self._connections = connections
        self._coordinators = coordinators
        self._retry = Retry.of(config.client, random)
        self._markers_backoff = markers_backoff(config.client, random)
        self._key = CoordinatorKey(CoordinatorType.TRANSACTION, transaction.transactional_id)
        self._asking = False
        self._commit_in_doubt = False
        self.waiting_for: str | None = None
        """What keeps the transaction from going on, for the message of a timeout."""

    def poll(self, now_ms: float, *, is_settled: bool) -> None:
        for error in self._coordinators.take_refusals().values():
            self._no_coordinator(error)
        if self._asking or not self._retry.is_due(now_ms):
            return
        step = self._transaction.next_step(is_settled=is_settled)
        match step:
            case None:
                pass
            case steps.InitProducerId():
                self._ask(step, init_request(self._config, step), self._on_init, now_ms)
            case steps.AddPartitions():
                self._ask(step, add_partitions_request(self._transaction, step), self._on_add_partitions, now_ms)
            case steps.AddOffsets():
                self._ask(step, add_offsets_request(self._transaction, step), self._on_add_offsets, now_ms)
            case steps.CommitOffsets():
                self._ask(step, commit_offsets_request(self._transaction, step), self._on_commit_offsets, now_ms)
            case steps.EndTransaction():
                self._ask(step, end_request(self._transaction, step), self._on_end, now_ms)
            case _:
                assert_never(step)

    def next_deadline_ms(self, now_ms: float) -> float:
        return NEVER if self._asking else self._retry.next_deadline_ms(now_ms)

    def _no_coordinator(self, error: KafkaError) -> None:
        """Handle a refused lookup of the coordinator, which no retry will change."""
        if isinstance(error, AbortableError):
            self._transaction.abortable(error)
        else:
            self._transaction.fatal(error)

    # Asking

    def _ask(self, step: S, request: RequestOf, handle: Callable[[S, Any, float], None], now_ms: float) -> None:
        key = self._coordinator_of(step)
        api_key, build = request
        route = self._coordinators.route(key, now_ms)
        if route is None:
            self.waiting_for = f"the coordinator of {key.type.name.lower()} {key.name!r}"
            return
        version_min = version_max = None
        if isinstance(step, steps.InitProducerId):
            version_min = None if step.resume is None else _RESUME_SINCE
        else:
            if not isinstance(step, steps.EndTransaction):
                self._transaction.sent()
            if self._transaction.transaction_version < TRANSACTIONS_V2:
                version_max = _V1_VERSION_MAX[api_key]
            else:
                version_min = _V2_VERSION_MIN
        self._asking = True
        self.waiting_for = f"an answer to {api_key.name}"

        def answered(response: Any, version: int, at_ms: float) -> None:
            self._asking = False
            handle(step, response, at_ms)

        def lost(reason: str, at_ms: float) -> None:
            self._asking = False
            self._commit_in_doubt |= isinstance(step, steps.EndTransaction) and step.committed
            self._coordinators.forget(key)
            self._later(at_ms, reason)

        call = Call(api_key, build, answered, lost, version_min=version_min, version_max=version_max)
        self._connections.send(route, call, now_ms)

    def _coordinator_of(self, step: steps.Step) -> CoordinatorKey:
        if isinstance(step, steps.CommitOffsets):
            return CoordinatorKey(CoordinatorType.GROUP, step.group.group_id)
        return self._key

    # Answers

    def _on_init(self, step: steps.InitProducerId, response: Any, now_ms: float) -> None:
        if response.error_code == ErrorCode.NONE:
            self._done()
            self._transaction.initialized(Identity(response.producer_id, response.producer_epoch))
        else:
            self._refused(step, response.error_code, "InitProducerId", now_ms)

    def _on_add_partitions(self, step: steps.AddPartitions, response: Any, now_ms: float) -> None:
        codes = partition_codes(response)
        added = [partition for partition in step.partitions if codes.get(partition) == ErrorCode.NONE]
        self._transaction.partitions_added(added)
        self._settle(step, [codes.get(p, ErrorCode.UNKNOWN_SERVER_ERROR) for p in step.partitions], now_ms)

    def _on_add_offsets(self, step: steps.AddOffsets, response: Any, now_ms: float) -> None:
        if response.error_code == ErrorCode.NONE:
            self._transaction.group_added(step.group_id)
        self._settle(step, [response.error_code], now_ms)

    def _on_commit_offsets(self, step: steps.CommitOffsets, response: Any, now_ms: float) -> None:
        codes = offset_codes(response)
        said = {p: codes.get(p, ErrorCode.UNKNOWN_SERVER_ERROR) for p in step.remaining}
        for partition, code in said.items():
            if code == ErrorCode.NONE:
                del step.remaining[partition]
        if not step.remaining:
            self._transaction.offsets_committed(step)
        self._settle(step, list(said.values()), now_ms)

    def _on_end(self, step: steps.EndTransaction, response: Any, now_ms: float) -> None:
        if response.error_code == ErrorCode.NONE:
            self._done()
            known = response.producer_id is not None
            self._transaction.ended(Identity(response.producer_id, response.producer_epoch) if known else None)
        elif response.error_code == ErrorCode.INVALID_TXN_STATE and self._transaction.nothing_to_end():
            self._done()
        elif not step.committed and response.error_code in _NOTHING_TO_ABORT:
            self._done()
            self._transaction.abort_by_init()
        else:
            self._refused(step, response.error_code, "EndTxn", now_ms)

    def _settle(self, step: steps.Step, codes: list[int], now_ms: float) -> None:
        """End a step with the codes of its parts, of which the worst decides."""
        wrong = [code for code in codes if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED)]
        if wrong:
            worst = next((code for code in wrong if family_of(code) is not Family.RETRIABLE), wrong[0])
            self._refused(step, worst, type(step).__name__, now_ms)
        else:
            self._done()

    def _refused(self, step: steps.Step, code: int, request: str, now_ms: float) -> None:
        text = f"{request} of transactional id {self._transaction.transactional_id!r} was answered {named(code).name}"
        if code in _FENCED:
            doubt = "; an earlier answer was lost, so the commit may have happened" if self._commit_in_doubt else ""
            self._transaction.fatal(client_error(ErrorCode.PRODUCER_FENCED, text + doubt))
        elif code in _MOVED or (isinstance(step, steps.CommitOffsets) and code == ErrorCode.REQUEST_TIMED_OUT):
            self._coordinators.forget(self._coordinator_of(step))
            self._later(now_ms, text)
        elif code == ErrorCode.CONCURRENT_TRANSACTIONS:
            self._later(now_ms, text, self._markers_backoff)
        elif family_of(code) is Family.RETRIABLE:
            self._later(now_ms, text)
        elif family_of(code) is Family.ABORTABLE and _can_abort_after(step):
            self._transaction.abortable(client_error(code, text))
        else:
            self._transaction.fatal(client_error(code, text, Family.FATAL))

    def _later(self, now_ms: float, reason: str, backoff: Backoff | None = None) -> None:
        self._retry = self._retry.failed(now_ms, backoff)
        self.waiting_for = reason

    def _done(self) -> None:
        self._retry = self._retry.succeeded()
        self._commit_in_doubt = False
        self.waiting_for = None


def _can_abort_after(step: steps.Step) -> bool:
    """Whether an abort may follow the refusal of this step. After that of an abort, another would be refused, too."""
    match step:
        case steps.InitProducerId():
            return False
        case steps.EndTransaction():
            return step.committed
        case _:
            return True
