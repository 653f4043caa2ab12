"""Whatever is lost, late or refused for a moment: what commit returned is there, what abort returned is not.

The producer machine works against a model of logs and coordinator. Chance decides about every request of a transaction
whether it is answered, served without its answer getting through, lost, refused for a moment, or lost for its sender
and served long afterwards. The coordinator moves. Nobody else uses the transactional id, so nothing is ever fatal.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semel.client.machine.connection.promise import Promise
from semel.client.machine.transaction.states import TransactionState
from semel.client.values import GroupMetadata, OffsetAndMetadata
from semel.errors import AbortableError, ErrorCode
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from tests.properties.client.request_fates import meanwhile, meets, oldest_of_a_connection
from tests.unit.client.machine.machine_bench import Request
from tests.unit.client.machine.model_cluster import ModelCluster
from tests.unit.client.machine.producer.producers import producing

PARTITIONS = 2
INPUT = TopicPartition("input", 0)
MEDDLED = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    }
)
PASSING = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class Chaos:
    def __init__(self, data: st.DataObject, version: int) -> None:
        self._data = data
        self.version = version
        self.cluster = ModelCluster(nodes=2, topics={"orders": PARTITIONS}, transaction_version=version)
        self.producer = producing(
            self.cluster, transactional_id="copy-1", batch_size=60, delivery_timeout_ms=4_000, request_timeout_ms=1_000
        )
        assert self.producer.machine.transaction is not None
        self.transaction = self.producer.machine.transaction
        self.late: list[Request] = []
        self.sent: list[tuple[int, bytes]] = []
        self.offset: int | None = None
        self.committed: list[tuple[int, bytes]] = []
        self.committed_offset: int | None = None
        self._ending: Promise[None] | None = None
        self._count = 0
        self.producer.bench.held = lambda request: request.api_key in MEDDLED
        self.wait(self.transaction.init(), faults=False)

    def one_transaction(self) -> None:
        """Begin, send, and commit or abort, with faults at every step; returns when the outcome is known."""
        self.transaction.begin()
        self.sent, self.offset = [], None
        for _ in range(self._draw(st.integers(0, 6))):
            self._work()
        if self._draw(st.integers(0, 4)) == 0:
            self.abort()
            return
        try:
            self.wait(self.transaction.commit())
        except AbortableError:
            self.abort()
            return
        self.committed += self.sent
        self.committed_offset = self.offset if self.offset is not None else self.committed_offset

    def abort(self) -> None:
        self.wait(self.transaction.abort())

    def wait(self, promise: Promise[Any], *, faults: bool = True) -> None:
        """Let things happen until a promise is settled: faults for a while, then none."""
        for _ in range(self._draw(st.integers(0, 8)) if faults else 0):
            if promise.settled:
                break
            self._happen()
        self.producer.bench.release()
        self.producer.advance(20_000)
        self.producer.bench.held = lambda request: request.api_key in MEDDLED
        assert promise.settled, f"stuck: {self.transaction.state}, waiting for {self.producer.machine.waiting_for}"
        assert promise.value is None

    def _work(self) -> None:
        match self._draw(st.sampled_from(("send", "send", "offsets", "happen", "happen"))):
            case "send":
                self._count += 1
                record = self._draw(st.integers(0, PARTITIONS - 1)), b"%d" % self._count
                try:
                    self.producer.send(record[1], partition=record[0])
                    self.sent.append(record)
                except AbortableError:
                    pass
            case "offsets":
                self._count += 1
                try:
                    promise = self.transaction.send_offsets(
                        GroupMetadata("billing"), {INPUT: OffsetAndMetadata(self._count)}
                    )
                    promise.then(lambda _: None)
                    self.offset = self._count
                except AbortableError:
                    pass
                self.producer.turn()
            case "happen":
                self._happen()

    def _happen(self) -> None:
        match self._draw(st.sampled_from(("fate", "fate", "fate", "time", "late", "move"))):
            case "fate":
                self._fate()
            case "move":
                self.cluster.coordinator_id = self._draw(st.sampled_from((1, 2)))
            case what:
                meanwhile(what, self._data, self.producer, self.late)

    def _fate(self) -> None:
        bench = self.producer.bench
        request = oldest_of_a_connection(self._data, bench.pending)
        if request is None:
            return
        match self._draw(st.sampled_from(("answer", "answer", "answer lost", "lost", "late", "refused"))):
            case "late":
                self.late += [r for r in bench.pending if r.connection == request.connection and self._harmless(r)]
                bench.drop_connection(request.connection)
            case "refused":
                self.cluster.transactions.refuse_with[request.api_key] = [self._draw(st.sampled_from(PASSING))]
                bench.answer(request)
                self.cluster.transactions.refuse_with.clear()
            case fate:
                meets(fate, request, bench, self.cluster)
        self.producer.settle()

    def _harmless(self, request: Request) -> bool:
        """Under V1 a late EndTxn ends the next transaction (KAFKA-17754); that V2 is safe is what is shown here.

        A late InitProducerId that resumes nothing takes over, under both, as another instance would.
        """
        if self.version == 1:
            return request.api_key is ApiKey.PRODUCE
        return request.api_key is not ApiKey.INIT_PRODUCER_ID or request.message.producer_id is not None

    def _draw(self, strategy: st.SearchStrategy[Any]) -> Any:
        return self._data.draw(strategy)


@pytest.mark.parametrize("version", [1, 2])
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(data=st.data(), count=st.integers(1, 5))
def test_what_was_committed_is_there_once_and_nothing_else(version: int, data: st.DataObject, count: int) -> None:
    """Scenarios 18, 20, 21, 31 and 36, from the producer's side."""
    chaos = Chaos(data, version)
    for _ in range(count):
        chaos.one_transaction()
    for request in chaos.late:
        chaos.cluster.answer(request)
    assert chaos.transaction.state is TransactionState.READY
    for partition in range(PARTITIONS):
        log = chaos.cluster.log("orders", partition)
        assert log.committed == [value for index, value in chaos.committed if index == partition]
        assert log.open == {}, "a transaction was left open"
    expected = {} if chaos.committed_offset is None else {("billing", INPUT): chaos.committed_offset}
    assert chaos.cluster.transactions.offsets == expected
