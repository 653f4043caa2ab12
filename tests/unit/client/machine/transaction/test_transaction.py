"""Transactions, as the producer machine runs them: V2 and V1, errors of each family, moving coordinators, attaching."""

from __future__ import annotations

from typing import Any

import pytest

from semel.client.machine.connection.promise import Promise
from semel.client.machine.producer.sequences import Identity
from semel.client.machine.transaction.states import LEGAL_SOURCES, TransactionState
from semel.client.machine.transaction.transaction import Transaction
from semel.client.values import GroupMetadata, OffsetAndMetadata, ProducerIdentity
from semel.errors import AbortableError, ErrorCode, FatalError, ProducerFenced, StateError, UnsupportedVersion
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.end_txn import EndTxnResponse
from semel.wire.records import BatchHeader, parse_header
from tests.unit.client.machine.model_cluster import ModelCluster
from tests.unit.client.machine.producer.producers import Producing, producing

ORDERS_0 = TopicPartition("orders", 0)
V1, V2 = 1, 2


class Transactional(Producing):
    """A producer with a transactional id; its calls are kept until they are settled, or raise."""

    @property
    def transaction(self) -> Transaction:
        assert self.machine.transaction is not None
        return self.machine.transaction

    def wait(self, promise: Promise[Any]) -> None:
        self.turn()
        self.advance(2_000)
        assert promise.settled, f"still waiting for {self.machine.waiting_for}"
        assert promise.value is None

    def init(self) -> None:
        self.wait(self.transaction.init())

    def commit(self) -> None:
        self.wait(self.transaction.commit())

    def abort(self) -> None:
        self.wait(self.transaction.abort())

    def send_offsets(self, offset: int, group: GroupMetadata | None = None) -> None:
        offsets = {ORDERS_0: OffsetAndMetadata(offset)}
        self.wait(self.transaction.send_offsets(group or GroupMetadata("billing"), offsets))

    def asked(self) -> list[ApiKey]:
        """The requests that were sent, without those that every client sends."""
        routine = (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.FIND_COORDINATOR)
        return [request.api_key for request in self.bench.seen if request.api_key not in routine]

    @property
    def outcomes(self) -> list[bool]:
        return self.cluster.transactions.outcomes


def transactional(version: int = V2, *, nodes: int = 1, ready: bool = True, **settings: Any) -> Transactional:
    cluster = ModelCluster(nodes=nodes, topics={"orders": 2}, transaction_version=version)
    made = producing(cluster, transactional_id="copy-1", **settings)
    producer = Transactional(made.cluster, made.bench, made.machine)
    if ready:
        producer.init()
        producer.bench.seen.clear()
    return producer


def begun(version: int = V2, **settings: Any) -> Transactional:
    producer = transactional(version, **settings)
    producer.transaction.begin()
    return producer


# The two protocols


def last_header(producer: Transactional) -> BatchHeader:
    """Of the last batch that was sent."""
    return parse_header(producer.bench.requests(ApiKey.PRODUCE)[-1].message.topic_data[0].partition_data[0].records)


def test_v2_writes_and_commits_without_announcing_anything() -> None:
    producer = begun(V2)
    producer.send(b"a")
    producer.commit()
    assert producer.asked() == [ApiKey.PRODUCE, ApiKey.END_TXN]
    assert producer.outcomes == [True]
    assert producer.bench.requests(ApiKey.PRODUCE)[0].version >= 12
    assert producer.bench.requests(ApiKey.END_TXN)[0].version == 5


def test_v2_takes_on_the_epoch_that_the_commit_brings_and_counts_from_zero() -> None:
    producer = begun(V2)
    for number in range(3):
        producer.send(b"%d" % number)
        producer.commit()
        header = last_header(producer)
        assert (header.producer_epoch, header.base_sequence, header.is_transactional) == (number, 0, True)
        producer.transaction.begin()
    assert producer.transaction.producer_identity == ProducerIdentity(1000, 3, V2)


def test_v1_announces_partitions_before_it_writes_to_them() -> None:
    producer = begun(V1)
    producer.send(b"a", partition=0)
    producer.send(b"b", partition=1)
    producer.commit()
    assert producer.asked() == [
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.PRODUCE,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.PRODUCE,
        ApiKey.END_TXN,
    ]
    assert producer.bench.requests(ApiKey.PRODUCE)[0].version == 11
    assert producer.bench.requests(ApiKey.END_TXN)[0].version == 4


def test_v1_goes_on_with_its_epoch_and_its_sequences() -> None:
    producer = begun(V1)
    for number in range(3):
        producer.send(b"%d" % number)
        producer.commit()
        header = last_header(producer)
        assert (header.producer_epoch, header.base_sequence) == (0, number)
        producer.transaction.begin()


@pytest.mark.parametrize("version", [V1, V2])
def test_offsets_become_the_group_s_with_the_commit(version: int) -> None:
    producer = begun(version)
    producer.send_offsets(7, GroupMetadata("billing", 3, "member-1", "instance-1"))
    assert producer.cluster.transactions.offsets == {}
    producer.commit()
    assert producer.cluster.transactions.offsets == {("billing", ORDERS_0): 7}
    message = producer.bench.requests(ApiKey.TXN_OFFSET_COMMIT)[0].message
    assert (message.generation_id, message.member_id, message.group_instance_id) == (3, "member-1", "instance-1")
    assert (ApiKey.ADD_OFFSETS_TO_TXN in producer.asked()) == (version == V1)


@pytest.mark.parametrize("version", [V1, V2])
def test_offsets_of_an_aborted_transaction_are_nobody_s(version: int) -> None:
    producer = begun(version)
    producer.send_offsets(7)
    producer.abort()
    assert producer.cluster.transactions.offsets == {}
    assert producer.outcomes == [False]


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("outcome", ["commit", "abort"])
def test_a_transaction_without_anything_in_it_asks_nobody(version: int, outcome: str) -> None:
    producer = begun(version)
    getattr(producer, outcome)()
    assert producer.asked() == []
    assert producer.transaction.state is TransactionState.READY


def test_commit_sends_what_lingers_first() -> None:
    producer = begun(linger_ms=60_000, delivery_timeout_ms=120_000)
    producer.send(b"a")
    assert producer.asked() == []
    producer.commit()
    assert producer.asked() == [ApiKey.PRODUCE, ApiKey.END_TXN]
    assert producer.offsets == {b"a": 0}


def test_abort_drops_what_was_not_sent_yet() -> None:
    producer = begun(linger_ms=60_000, delivery_timeout_ms=120_000)
    producer.send(b"a")
    producer.abort()
    assert producer.cluster.log("orders").values == []
    assert isinstance(producer.errors[b"a"], AbortableError)


def test_abort_waits_for_what_is_under_way() -> None:
    producer = begun()
    producer.bench.held = lambda request: request.api_key is ApiKey.PRODUCE
    producer.send(b"a")
    producer.send(b"b")
    promise = producer.transaction.abort()
    producer.advance(1_000)
    assert ApiKey.END_TXN not in producer.asked()
    producer.bench.release()
    assert promise.settled
    assert producer.outcomes == [False]


def test_the_transaction_timeout_is_the_one_that_was_set() -> None:
    producer = transactional(ready=False, transaction_timeout_ms=12_345)
    producer.init()
    assert producer.bench.requests(ApiKey.INIT_PRODUCER_ID)[0].message.transaction_timeout_ms == 12_345


# Failures


def test_a_failed_send_makes_commit_raise_the_abortable_error() -> None:
    producer = begun()
    producer.cluster.log("orders").refuse_with = [ErrorCode.INVALID_RECORD]
    producer.send(b"a")
    with pytest.raises(AbortableError, match=r"INVALID_RECORD.*[Aa]bort the transaction"):
        producer.transaction.commit()
    with pytest.raises(AbortableError):
        producer.send(b"b")
    producer.abort()
    producer.transaction.begin()
    producer.send(b"c")
    producer.commit()
    assert producer.outcomes == [False, True]
    assert producer.cluster.log("orders").values == [b"c"]


def test_a_send_that_fails_during_the_commit_makes_it_raise() -> None:
    producer = begun()
    producer.bench.held = lambda request: request.api_key is ApiKey.PRODUCE
    producer.cluster.log("orders").refuse_with = [ErrorCode.INVALID_RECORD]
    producer.send(b"a")
    promise = producer.transaction.commit()
    producer.turn()
    producer.bench.release()
    assert isinstance(promise.error, AbortableError)
    assert producer.transaction.state is TransactionState.ABORTABLE_ERROR
    producer.abort()
    assert producer.outcomes == [False]


def test_a_record_that_timed_out_aborts_the_transaction_although_its_error_is_retriable() -> None:
    producer = begun(delivery_timeout_ms=3_000, request_timeout_ms=2_000)
    producer.bench.held = lambda request: request.api_key is ApiKey.PRODUCE
    producer.send(b"a")
    producer.advance(3_000)
    with pytest.raises(AbortableError, match=r"delivery\.timeout\.ms"):
        producer.transaction.commit()


@pytest.mark.parametrize("version", [V1, V2])
def test_after_a_batch_in_doubt_the_next_transaction_has_a_new_epoch(version: int) -> None:
    """What is still on its way there from the old one is refused."""
    producer = begun(version, delivery_timeout_ms=3_000, request_timeout_ms=2_000)
    before = producer.transaction.producer_identity
    producer.bench.held = lambda request: request.api_key is ApiKey.PRODUCE
    producer.send(b"a")
    producer.advance(3_000)
    producer.bench.release()
    producer.abort()
    producer.transaction.begin()
    assert producer.transaction.producer_identity.producer_epoch > before.producer_epoch
    producer.send(b"b")
    producer.commit()
    assert producer.outcomes[-1] is True


def test_v1_without_a_way_to_bump_the_epoch_is_a_fatal_error() -> None:
    producer = begun(V1, delivery_timeout_ms=3_000, request_timeout_ms=2_000)
    producer.cluster.versions[ApiKey.INIT_PRODUCER_ID] = (0, 2)
    producer.bench.held = lambda request: request.api_key is ApiKey.PRODUCE
    producer.send(b"a")
    producer.advance(3_000)
    for connection in tuple(producer.bench.connections):
        producer.bench.drop_connection(connection)
    producer.bench.release()
    promise = producer.transaction.abort()
    producer.advance(5_000)
    assert isinstance(promise.error, UnsupportedVersion)


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_producer_that_was_replaced_is_fenced_for_good(code: ErrorCode) -> None:
    """Scenario 16."""
    producer = begun()
    producer.send(b"a")
    producer.cluster.transactions.refuse_with[ApiKey.END_TXN] = [code]
    promise = producer.transaction.commit()
    producer.turn()
    assert isinstance(promise.error, ProducerFenced)
    assert "close this one" in str(promise.error)
    for call in (producer.transaction.begin, producer.transaction.commit, producer.transaction.abort):
        with pytest.raises(ProducerFenced):
            call()
    with pytest.raises(ProducerFenced):
        producer.send(b"b")


def test_a_batch_with_an_old_epoch_is_abortable_and_the_abort_finds_out_who_is_right() -> None:
    """Scenario 26: the transaction timed out, and the coordinator bumped the epoch; the abort is fenced, then fatal."""
    producer = begun()
    producer.cluster.transactions.identities["copy-1"] = (1000, 7)
    producer.send(b"a")
    with pytest.raises(AbortableError, match="INVALID_PRODUCER_EPOCH"):
        producer.transaction.commit()
    promise = producer.transaction.abort()
    producer.advance(1_000)
    assert isinstance(promise.error, ProducerFenced)


def test_an_abort_that_the_coordinator_knows_nothing_of_bumps_the_epoch_instead() -> None:
    """Scenario 23: the only batch was refused before its partition was added, so no transaction is open."""
    producer = begun()
    producer.bench.held = lambda request: request.api_key is ApiKey.PRODUCE
    producer.send(b"a")
    for connection in tuple(producer.bench.connections):
        producer.bench.drop_connection(connection)
    promise = producer.transaction.abort()
    producer.bench.release()
    producer.advance(5_000)
    assert promise.settled
    assert promise.error is None
    assert producer.asked()[-2:] == [ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID]
    assert producer.transaction.producer_identity.producer_epoch == 1


@pytest.mark.parametrize("code", [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_PRODUCER_ID_MAPPING])
def test_a_commit_that_is_refused_can_be_aborted(code: ErrorCode) -> None:
    producer = begun()
    producer.send(b"a")
    producer.cluster.transactions.refuse_with[ApiKey.END_TXN] = [code]
    promise = producer.transaction.commit()
    producer.turn()
    assert isinstance(promise.error, AbortableError)
    producer.abort()
    assert producer.transaction.state is TransactionState.READY


@pytest.mark.parametrize("version", [V1, V2])
def test_an_abort_that_is_refused_is_a_fatal_error(version: int) -> None:
    """KIP-1050: the answer to TRANSACTION_ABORTABLE is an abort, so an abort that gets it cannot succeed."""
    producer = begun(version)
    producer.send(b"a")
    producer.turn()
    producer.advance(100)
    producer.cluster.transactions.refuse_with[ApiKey.END_TXN] = [ErrorCode.TRANSACTION_ABORTABLE] * 1_000
    promise = producer.transaction.abort()
    producer.turn()
    assert isinstance(promise.error, FatalError)
    assert producer.transaction.state is TransactionState.FATAL_ERROR
    assert producer.asked().count(ApiKey.END_TXN) == 1


@pytest.mark.parametrize(
    "code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID]
)
def test_offsets_of_a_zombie_abort_the_transaction(code: ErrorCode) -> None:
    """Scenario 53."""
    producer = begun()
    producer.cluster.transactions.refuse_with[ApiKey.TXN_OFFSET_COMMIT] = [code]
    promise = producer.transaction.send_offsets(GroupMetadata("billing"), {ORDERS_0: OffsetAndMetadata(7)})
    producer.advance(1_000)
    assert isinstance(promise.error, AbortableError)
    with pytest.raises(AbortableError, match=code.name):
        producer.transaction.commit()


def test_an_invalid_timeout_is_fatal_and_names_the_setting() -> None:
    """Scenario 29."""
    producer = transactional(ready=False)
    producer.cluster.transactions.refuse_with[ApiKey.INIT_PRODUCER_ID] = [ErrorCode.INVALID_TRANSACTION_TIMEOUT]
    promise = producer.transaction.init()
    producer.advance(1_000)
    assert isinstance(promise.error, FatalError)
    assert "transaction.timeout.ms" in str(promise.error)


# What is handled inside

RETRIED = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


@pytest.mark.parametrize("code", RETRIED)
@pytest.mark.parametrize("version", [V1, V2])
def test_what_passes_is_waited_for(code: ErrorCode, version: int) -> None:
    """Scenarios 16, 17 and 36: whatever the step, it is asked again until the coordinator is ready for it."""
    producer = transactional(version, ready=False)
    refuse = producer.cluster.transactions.refuse_with
    refuse[ApiKey.FIND_COORDINATOR] = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    for api_key in (
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    ):
        refuse[api_key] = [code, code]
    producer.init()
    producer.transaction.begin()
    producer.send(b"a")
    producer.advance(1_000)
    producer.send_offsets(7)
    producer.commit()
    assert producer.outcomes == [True]
    assert producer.cluster.transactions.offsets == {("billing", ORDERS_0): 7}


def test_concurrent_transactions_is_asked_again_after_a_moment_only() -> None:
    producer = begun()
    producer.send(b"a")
    producer.cluster.transactions.refuse_with[ApiKey.END_TXN] = [ErrorCode.CONCURRENT_TRANSACTIONS]
    producer.transaction.commit()
    producer.turn()
    producer.advance(5)
    assert producer.outcomes == [True]


def test_a_coordinator_that_moved_is_found_again() -> None:
    producer = begun(nodes=2)
    producer.send(b"a")
    producer.cluster.coordinator_id = 2
    producer.commit()
    assert [request.node_id for request in producer.bench.requests(ApiKey.END_TXN)] == [1, 2]
    assert producer.outcomes == [True]


def test_a_commit_whose_answer_was_lost_is_asked_again_until_the_outcome_is_known() -> None:
    producer = begun()
    producer.send(b"a")
    producer.bench.held = lambda request: request.api_key is ApiKey.END_TXN
    promise = producer.transaction.commit()
    producer.turn()
    producer.bench.drop_connection(producer.bench.waiting(ApiKey.END_TXN)[0].connection)
    producer.advance(1_000)
    assert not promise.settled
    assert producer.transaction.commit() is promise, "calling commit again waits for the same outcome"
    with pytest.raises(StateError, match="call commit again"):
        producer.transaction.abort()
    producer.bench.release()
    assert promise.settled
    assert producer.outcomes == [True]


def test_a_commit_that_is_fenced_after_a_lost_answer_says_that_it_may_have_happened() -> None:
    producer = begun()
    producer.send(b"a")
    producer.bench.held = lambda request: request.api_key is ApiKey.END_TXN
    promise = producer.transaction.commit()
    producer.turn()
    request = producer.bench.waiting(ApiKey.END_TXN)[0]
    producer.cluster.answer(request)
    producer.bench.drop_connection(request.connection)
    producer.cluster.transactions.last_end.clear()  # Another producer has taken over and gone on.
    producer.bench.release()
    producer.advance(1_000)
    assert isinstance(promise.error, ProducerFenced)
    assert "the commit may have happened" in str(promise.error)


def test_a_producer_id_that_was_rotated_is_taken_over() -> None:
    """Scenario 19."""
    producer = begun()
    producer.send(b"a")
    producer.bench.held = lambda request: request.api_key is ApiKey.END_TXN
    producer.transaction.commit()
    producer.turn()
    producer.bench.answer(producer.bench.waiting(ApiKey.END_TXN)[0], EndTxnResponse(producer_id=2000, producer_epoch=0))
    assert producer.transaction.producer_identity == ProducerIdentity(2000, 0, V2)


def test_a_cluster_that_is_upgraded_is_spoken_to_in_v2_from_the_next_transaction_on() -> None:
    producer = begun(V1)
    producer.send(b"a")
    producer.machine._connections.features = {"transaction.version": 2}
    producer.commit()
    assert producer.bench.requests(ApiKey.END_TXN)[-1].version == 4
    producer.transaction.begin()
    producer.send(b"b")
    producer.commit()
    assert producer.bench.requests(ApiKey.END_TXN)[-1].version == 5


# States


def test_every_call_in_the_wrong_state_names_the_state() -> None:
    producer = transactional(ready=False)
    calls = {
        "begin": producer.transaction.begin,
        "commit": producer.transaction.commit,
        "abort": producer.transaction.abort,
        "send": lambda: producer.send(b"a"),
        "send_offsets": lambda: producer.send_offsets(1),
    }
    for name, call in calls.items():
        with pytest.raises(StateError, match=rf"{name}: producer 'copy-1' is uninitialized"):
            call()
    producer.init()
    with pytest.raises(StateError, match="init: producer 'copy-1' is ready"):
        producer.transaction.init()
    with pytest.raises(StateError, match="send: producer 'copy-1' is ready"):
        producer.send(b"a")
    producer.transaction.begin()
    with pytest.raises(StateError, match="begin: producer 'copy-1' is in transaction"):
        producer.transaction.begin()


def test_the_table_has_all_eight_states_and_nothing_leaves_a_fatal_error() -> None:
    assert set(LEGAL_SOURCES) == set(TransactionState)
    assert len(TransactionState) == 8
    leaving = [target for target, sources in LEGAL_SOURCES.items() if TransactionState.FATAL_ERROR in sources]
    assert leaving == [TransactionState.FATAL_ERROR]


# Attached


def attached(version: int = V2) -> tuple[Transactional, Transactional]:
    """An owner within a transaction, and a second producer in the same cluster that is attached to it."""
    owner = begun(version)
    made = producing(owner.cluster, transactional_id="copy-1")
    worker = Transactional(made.cluster, made.bench, made.machine)
    identity = owner.transaction.hand_out_identity()
    worker.transaction.attach(Identity(*identity[:2]), identity.transaction_version, is_idle=True)
    return owner, worker


@pytest.mark.parametrize("version", [V1, V2])
def test_an_attached_producer_writes_within_the_owner_s_transaction(version: int) -> None:
    owner, worker = attached(version)
    worker.send(b"a")
    worker.advance(1_000)
    assert worker.offsets == {b"a": 0}
    forbidden = {ApiKey.INIT_PRODUCER_ID, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN}
    assert forbidden.isdisjoint(worker.asked())
    owner.send_offsets(7)
    owner.commit()
    assert owner.outcomes == [True]


@pytest.mark.parametrize("version", [V1, V2])
def test_what_only_others_wrote_is_ended_by_the_owner(version: int) -> None:
    owner, worker = attached(version)
    worker.send(b"a")
    worker.advance(1_000)
    owner.commit()
    assert owner.outcomes == [True]


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("outcome", ["commit", "abort"])
def test_a_transaction_that_others_could_have_written_in_and_did_not_is_over(version: int, outcome: str) -> None:
    owner, _ = attached(version)
    getattr(owner, outcome)()
    assert owner.transaction.state is TransactionState.READY
    assert ApiKey.END_TXN in owner.asked()


def test_the_owner_can_bump_its_epoch_and_those_who_were_attached_are_refused() -> None:
    owner, worker = attached(V1)
    worker.send(b"a")
    worker.advance(1_000)
    owner.commit()
    owner.wait(owner.transaction.bump_epoch())
    worker.send(b"late")
    worker.advance(1_000)
    assert isinstance(worker.errors[b"late"], AbortableError)
    owner.transaction.begin()
    with pytest.raises(StateError, match="bump_epoch: producer 'copy-1' is in transaction"):
        owner.transaction.bump_epoch()


def test_an_attached_producer_cannot_end_what_it_does_not_own() -> None:
    _, worker = attached()
    for call in (
        worker.transaction.init,
        worker.transaction.bump_epoch,
        worker.transaction.begin,
        worker.transaction.commit,
        worker.transaction.abort,
        lambda: worker.send_offsets(1),
    ):
        with pytest.raises(StateError, match="of another producer"):
            call()


def test_whatever_fails_in_an_attached_producer_is_an_error_for_the_owner() -> None:
    _, worker = attached()
    worker.cluster.log("orders").refuse_with = [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    worker.send(b"a")
    assert isinstance(worker.errors[b"a"], AbortableError)
    with pytest.raises(AbortableError):
        worker.send(b"b")
    worker.advance(10_000)
    assert ApiKey.INIT_PRODUCER_ID not in worker.asked()


def test_an_attached_producer_is_attached_again_to_the_next_transaction() -> None:
    owner, worker = attached()
    worker.send(b"a")
    with pytest.raises(StateError, match="flush first"):
        worker.transaction.attach(Identity(1000, 1), V2, is_idle=False)
    with pytest.raises(StateError, match="already"):
        worker.transaction.attach(Identity(1000, 0), V2, is_idle=True)
    owner.send(b"b", partition=1)
    owner.commit()
    owner.transaction.begin()
    worker.transaction.attach(Identity(1000, 1), V2, is_idle=True)
    worker.send(b"c")
    header = parse_header(worker.bench.requests(ApiKey.PRODUCE)[-1].message.topic_data[0].partition_data[0].records)
    assert (header.producer_epoch, header.base_sequence) == (1, 0)


def test_a_writer_of_an_old_transaction_is_refused_and_its_owner_told() -> None:
    owner, worker = attached()
    owner.send(b"a")
    owner.commit()
    worker.send(b"late")
    assert isinstance(worker.errors[b"late"], AbortableError)
    assert owner.cluster.log("orders").values == [b"a"]
