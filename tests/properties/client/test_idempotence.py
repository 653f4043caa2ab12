"""Whatever is lost, late or repeated: every record is settled once, and written once, in order, if it was acknowledged.

The producer machine works against a model cluster whose logs deduplicate as Kafka's do. Chance decides about each
Produce request whether it is answered, served without its answer getting through, lost, refused for a moment, or lost
for its sender and served long afterwards; leaders move, time passes, records expire.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semel.errors import ErrorCode
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from tests.properties.client.request_fates import meanwhile, meets, oldest_of_a_connection
from tests.unit.client.machine.machine_bench import Request
from tests.unit.client.machine.model_cluster import ModelCluster
from tests.unit.client.machine.producer.producers import Producing, producing

PARTITIONS = 2
TEMPORARY = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
)


class Chaos:
    """A producer, and chance."""

    def __init__(self, draw: st.DataObject, **settings: object) -> None:
        self._data = draw
        self.cluster = ModelCluster(nodes=2, topics={"orders": PARTITIONS})
        self.producer: Producing = producing(
            self.cluster,
            batch_size=60,
            delivery_timeout_ms=4_000,
            request_timeout_ms=1_000,
            **settings,
        )
        self.producer.bench.held = lambda request: request.api_key is ApiKey.PRODUCE
        self.late: list[Request] = []
        self.sent: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}

    def step(self) -> None:
        match self._draw(st.sampled_from(("send", "send", "fate", "fate", "fate", "time", "late", "move"))):
            case "send":
                self._send()
            case "fate":
                self._fate()
            case "move":
                partition = self._draw(st.integers(0, PARTITIONS - 1))
                self.cluster.move_leader("orders", partition, self._draw(st.sampled_from((1, 2))))
            case what:
                meanwhile(what, self._data, self.producer, self.late)

    def heal(self) -> None:
        """No more faults: everything must come to an end."""
        self.producer.bench.release()
        self.producer.advance(30_000)

    def _send(self) -> None:
        partition = self._draw(st.integers(0, PARTITIONS - 1))
        for _ in range(self._draw(st.integers(1, 3))):
            value = b"%d-%d" % (partition, len(self.sent[partition]))
            self.sent[partition].append(value)
            self.producer.send(value, partition=partition, turn=False)
        self.producer.turn()

    def _fate(self) -> None:
        """What becomes of the oldest request of some connection."""
        bench = self.producer.bench
        request = oldest_of_a_connection(self._data, bench.waiting(ApiKey.PRODUCE))
        if request is None:
            return
        match self._draw(st.sampled_from(("answer", "answer", "answer lost", "lost", "late", "refused", "doubt"))):
            case "late":
                self.late += [other for other in bench.pending if other.connection == request.connection]
                bench.drop_connection(request.connection)
            case "refused":
                code = self._draw(st.sampled_from(TEMPORARY))
                for log in self.cluster.logs.values():
                    log.refuse_with = [code]
                bench.answer(request)
                for log in self.cluster.logs.values():
                    log.refuse_with = []
            case "doubt":
                # Written, and the answer says only that it took too long.
                response: Any = self.cluster.answer(request)
                for topic in response.responses:
                    for answer in topic.partition_responses:
                        if answer.error_code == ErrorCode.NONE:
                            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
                bench.answer(request, response)
            case fate:
                meets(fate, request, bench, self.cluster)
        self.producer.settle()

    def _draw(self, strategy: st.SearchStrategy[object]) -> object:
        return self._data.draw(strategy)


def check(chaos: Chaos) -> None:
    producer = chaos.producer
    for partition, sent in chaos.sent.items():
        log = chaos.cluster.logs[TopicPartition("orders", partition)].values
        assert len(set(log)) == len(log), f"written twice: {log}"
        assert log == [value for value in sent if value in set(log)], f"out of order: {log}"
        for value in sent:
            if value in producer.offsets:
                offset = producer.offsets[value]
                assert value in log, f"{value} was acknowledged and is lost"
                assert offset is None or log[offset] == value, f"{value} was said to be at {offset}"
            else:
                error = str(producer.errors[value])
                assert "may have been written" in error or value not in log, f"{value} is there, in spite of {error}"
    assert producer.machine.is_idle
    assert producer.machine._accumulator.buffered_bytes == 0


@settings(max_examples=75, suppress_health_check=list(HealthCheck))
@given(data=st.data(), steps=st.integers(5, 60))
def test_no_loss_no_duplicate_and_order(data: st.DataObject, steps: int) -> None:
    """Scenarios 1, 2, 3, 5, 6 and 7, from the producer's side."""
    chaos = Chaos(data)
    for _ in range(steps):
        chaos.step()
    chaos.heal()
    check(chaos)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(data=st.data(), steps=st.integers(5, 60))
def test_once_the_faults_stop_a_new_record_is_always_acknowledged(data: st.DataObject, steps: int) -> None:
    chaos = Chaos(data)
    for _ in range(steps):
        chaos.step()
    chaos.heal()
    for partition in range(PARTITIONS):
        chaos.sent[partition].append(b"last-%d" % partition)
        chaos.producer.send(b"last-%d" % partition, partition=partition)
    chaos.heal()
    check(chaos)
    assert {b"last-0", b"last-1"} <= set(chaos.producer.offsets)
