"""Produce requests with batches that take long to check: finished elsewhere, answered in order, in both ways."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from semel.broker.produce.record_checks import RECOMPRESSED_BYTES_MAX, TURN_BYTES, WAITING_BYTES_MAX, RecordChecks
from semel.errors import ErrorCode, KafkaError
from semel.log.batch_check import BatchCheck
from semel.log.config import LogConfig
from semel.testing import Broker
from semel.wire.apis import ApiKey
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.delete_topics import DeleteTopicsRequest
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.wire.records import Codec, Record, build_batch
from tests.broker.raw_client import RawClient, batch, produce_request
from tests.broker.transactional_client import Transactional
from tests.logs import StepWorker

T = TypeVar("T")
TIME = 1_700_000_000_000

COUNT = 40_000
UNEVEN = [Record(number, TIME, b"k", b"v" * (number * 7 % 5)) for number in range(COUNT)]
KEYLESS = [*UNEVEN[:-2], Record(COUNT - 2, TIME), Record(COUNT - 1, TIME)]


def long_batch(codec: Codec = Codec.NONE, **how: int | bool) -> bytes:
    """A batch that the event loop begins to check and does not finish."""
    return bytes(build_batch(UNEVEN, codec=codec, **how))  # type: ignore[arg-type]


class Bench:
    """A broker whose long checks are finished when a test says so."""

    def __init__(self, broker: Broker, *, in_place: bool) -> None:
        assert broker._broker is not None
        assert broker._broker._running is not None
        self.broker = broker
        self.node = broker._broker.node
        self.worker = StepWorker()
        self.node.record_checks._make_worker = lambda name: self.worker
        if not in_place:
            broker._broker._running.dispatcher._parse_in_place = lambda connection, frame: None
        self.client = RawClient(broker.port)
        self.other = RawClient(broker.port)

    def step(self) -> None:
        """Finish one check: on the broker's loop, as a worker reports there."""
        for _ in range(1000):
            if self._on_loop(lambda: bool(self.worker.jobs)):
                break
        self._on_loop(self.worker.step)

    def waiting(self) -> int:
        return self._on_loop(lambda: len(self.worker.jobs))

    def _on_loop(self, call: Callable[[], T]) -> T:
        return self.broker._call(_called(call))


async def _called(call: Callable[[], T]) -> T:
    return call()


@pytest.fixture(params=[True, False], ids=["in place", "general"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    with Broker() as broker:
        assert broker._broker is not None
        broker._broker.node.random = random.Random(5)
        yield Bench(broker, in_place=request.param)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
def test_requests_behind_a_long_check_are_held_and_other_clients_are_not(bench: Bench, codec: Codec) -> None:
    bench.client.create_topic("t")
    first = bench.client.send(ApiKey.PRODUCE, 9, produce_request("t", long_batch(codec)))
    second = bench.client.send(ApiKey.PRODUCE, 9, produce_request("t", batch(b"after")))
    # The client beside it is served meanwhile, on the same partition.
    assert bench.other.produce("t", batch(b"beside")).base_offset == 0
    assert not bench.client.has_answer(0.05)
    bench.step()
    answers = [
        bench.client.receive(ApiKey.PRODUCE, 9, number).responses[0].partition_responses[0]
        for number in (first, second)
    ]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 1), (0, 1 + COUNT)]
    assert bench.node.record_checks.waiting_bytes == 0


def test_a_long_batch_that_is_bad_is_refused_and_its_records_are_named(bench: Bench) -> None:
    bench.client.create_topic("compacted", cleanup_policy="compact")
    for codec in (Codec.NONE, Codec.LZ4):
        for version in (7, 8, 9, 12):
            request = produce_request("compacted", bytes(build_batch(KEYLESS, codec=codec)))
            number = bench.client.send(ApiKey.PRODUCE, version, request)
            bench.step()
            response = bench.client.receive(ApiKey.PRODUCE, version, number)
            answer = response.responses[0].partition_responses[0]
            assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_RECORD, None)
            named = [(error.batch_index, bool(error.batch_index_error_message)) for error in answer.record_errors]
            assert named == ([(COUNT - 2, True), (COUNT - 1, True)] if version >= 8 else [])
            assert bool(answer.error_message) == (version >= 8)
    assert bench.client.fetch("compacted", 0).high_watermark == 0


def test_a_brief_batch_without_keys_is_refused_at_once_and_its_records_are_named(bench: Bench) -> None:
    bench.client.create_topic("compacted", cleanup_policy="compact")
    records = bytes(build_batch([Record(0, TIME, b"k"), Record(1, TIME), Record(2, TIME, b"k"), Record(3, TIME)]))
    answer = bench.client.produce("compacted", records, version=9)
    assert (answer.error_code, [error.batch_index for error in answer.record_errors]) == (87, [1, 3])
    assert "2 of 4 records" in (answer.error_message or "")


def test_acks_0_appends_after_a_long_check_and_closes_where_it_is_refused(bench: Bench) -> None:
    bench.client.create_topic("t")
    bench.client.send(ApiKey.PRODUCE, 9, produce_request("t", long_batch(), acks=0))
    number = bench.client.send(ApiKey.PRODUCE, 9, produce_request("t", batch(b"after")))
    bench.step()
    answer = bench.client.receive(ApiKey.PRODUCE, 9, number).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (0, COUNT)
    bench.client.create_topic("compacted", cleanup_policy="compact")
    bench.client.send(ApiKey.PRODUCE, 9, produce_request("compacted", bytes(build_batch(KEYLESS)), acks=0))
    bench.step()
    assert bench.client.is_closed_by_broker()


def test_a_client_that_leaves_during_the_check_has_its_records_appended(bench: Bench) -> None:
    bench.other.create_topic("t")
    bench.client.send(ApiKey.PRODUCE, 9, produce_request("t", long_batch()))
    while not bench.waiting():
        pass
    bench.client.socket.close()
    bench.step()
    assert bench.other.produce("t", batch(b"after")).base_offset == COUNT


def delete_during_check(bench: Bench) -> int:
    """The topic of a Produce is deleted while its batch is checked. Returns the number of the request."""
    bench.other.create_topic("t")
    number = bench.client.send(ApiKey.PRODUCE, 9, produce_request("t", long_batch()))
    while not bench.waiting():
        pass
    bench.other.call(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=["t"]))
    return number


def test_a_partition_that_is_made_anew_during_the_check_gets_nothing_of_the_old_one(bench: Bench) -> None:
    number = delete_during_check(bench)
    bench.step()
    answer = bench.client.receive(ApiKey.PRODUCE, 9, number).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    bench.other.call(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic("t", 1, 1)]))
    assert bench.other.produce("t", batch(b"new")).base_offset == 0


def test_a_topic_that_is_made_anew_under_its_name_during_the_check_gets_nothing_of_the_old_one(bench: Bench) -> None:
    number = delete_during_check(bench)
    bench.other.call(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic("t", 1, 1)]))
    assert bench.other.produce("t", batch(b"new")).base_offset == 0
    bench.step()
    answer = bench.client.receive(ApiKey.PRODUCE, 9, number).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    assert bench.other.produce("t", batch(b"next")).base_offset == 1


def test_a_topic_that_is_made_during_the_check_of_its_request_gets_nothing_of_it(bench: Bench) -> None:
    """Its batch was not looked into, and the event loop has no time for that any more."""
    bench.other.create_topic("t")
    data = [TopicProduceData(name, partition_data=[PartitionProduceData(0, long_batch())]) for name in ("t", "later")]
    number = bench.client.send(ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=1000, topic_data=data))
    while not bench.waiting():
        pass
    bench.other.create_topic("later")
    bench.step()
    answers = bench.client.receive(ApiKey.PRODUCE, 9, number).responses
    codes = [answer.partition_responses[0].error_code for answer in answers]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize("is_v2", [False, True], ids=["V1", "V2"])
def test_a_transaction_that_ends_during_the_check_is_not_opened_again(bench: Bench, is_v2: bool) -> None:
    bench.other.create_topic("t")
    producer = Transactional(bench.other, "x", is_v2=is_v2)
    producer.find()
    assert producer.init().error_code == 0
    if not is_v2:
        assert producer.add("t", 0) == [0]
    version = 12 if is_v2 else 11

    def request(sequence: int) -> ProduceRequest:
        records = long_batch(
            producer_id=producer.producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True
        )
        asked = produce_request("t", records)
        asked.transactional_id = "x"
        return asked

    number = bench.client.send(ApiKey.PRODUCE, version, request(0))
    bench.step()
    answer = bench.client.receive(ApiKey.PRODUCE, version, number).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (0, 0)
    number = bench.client.send(ApiKey.PRODUCE, version, request(COUNT))
    while not bench.waiting():
        pass
    assert producer.end(True).error_code == 0
    bench.step()
    answer = bench.client.receive(ApiKey.PRODUCE, version, number).responses[0].partition_responses[0]
    assert answer.error_code != 0
    partition = bench.node.partitions.get("t", 0)
    assert partition is not None
    assert partition.log.producers.first_undecided_offset is None


def test_a_request_with_many_batches_is_checked_elsewhere_when_they_take_long_together(bench: Bench) -> None:
    """Each is brief; the loop takes as many as it has time for."""
    bench.client.create_topic("t", partitions=40)
    small = bytes(build_batch(UNEVEN[:3000]))
    data = [PartitionProduceData(index, small) for index in range(40)]
    data[7] = PartitionProduceData(7, small[:-1] + b"\x01")
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData("t", partition_data=data)])
    number = bench.client.send(ApiKey.PRODUCE, 9, request)
    assert not bench.client.has_answer(0.05)
    bench.step()
    answers = bench.client.receive(ApiKey.PRODUCE, 9, number).responses[0].partition_responses
    assert [answer.error_code for answer in answers] == [
        ErrorCode.CORRUPT_MESSAGE if index == 7 else ErrorCode.NONE for index in range(40)
    ]


def test_more_than_may_wait_is_answered_send_it_again(bench: Bench) -> None:
    bench.client.create_topic("t")
    number = bench.client.send(ApiKey.PRODUCE, 9, produce_request("t", long_batch()))
    while not bench.waiting():
        pass
    bench.node.record_checks.waiting_bytes += WAITING_BYTES_MAX
    answer = bench.other.produce("t", long_batch())
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS, None)
    assert str(WAITING_BYTES_MAX) in (answer.error_message or "")
    bench.node.record_checks.waiting_bytes -= WAITING_BYTES_MAX
    bench.step()
    assert bench.client.receive(ApiKey.PRODUCE, 9, number).responses[0].partition_responses[0].base_offset == 0


def test_one_request_is_checked_however_large_and_none_after_the_end() -> None:
    worker = StepWorker()
    checks = RecordChecks(lambda name: worker)
    checks.check_room(10 * WAITING_BYTES_MAX)
    done: list[BaseException | None] = []
    check = BatchCheck(memoryview(bytearray(long_batch())), LogConfig())
    checks.run((check,), 10 * WAITING_BYTES_MAX, done.append)
    with pytest.raises(KafkaError):
        checks.check_room(1)
    worker.step()
    assert (done, check.is_over, checks.waiting_bytes) == ([None], True, 0)
    checks.kill()
    checks.run((check,), 1, done.append)
    assert (done, worker.jobs) == ([None], [])


def test_a_check_whose_end_is_told_after_the_broker_s_end_continues_no_request() -> None:
    """The thread may have handed over its result just before. The rest would be checked on the event loop."""
    worker = StepWorker()
    checks = RecordChecks(lambda name: worker)
    done: list[BaseException | None] = []
    bomb = bytes(build_batch([Record(0, TIME, b"k", bytes(10**6))], codec=Codec.ZSTD))
    many = [BatchCheck(memoryview(bytearray(bomb)), LogConfig()) for _ in range(2 * TURN_BYTES // 10**6)]
    checks.run(many, 1, done.append)
    worker.work()
    checks.kill()
    worker.tell()
    assert not many[-1].is_over
    assert done == []


def test_what_was_unpacked_is_counted_while_it_waits_and_given_back_where_it_is_too_much() -> None:
    worker = StepWorker()
    checks = RecordChecks(lambda name: worker)
    done: list[BaseException | None] = []
    records = long_batch(Codec.ZSTD)
    begun = []
    for _ in range(3):
        check = BatchCheck(memoryview(bytearray(records)), LogConfig())
        check.begin()
        assert check.unpacked_bytes > 5 * len(records)
        begun.append(check)
    checks.run(begun[:1], len(records), done.append)
    assert checks.waiting_bytes == len(records) + begun[0].unpacked_bytes
    before = checks.waiting_bytes
    # Room for what the next two sent, and for what one of them has unpacked.
    sent = WAITING_BYTES_MAX - before - begun[1].unpacked_bytes
    checks.run(begun[1:], sent, done.append)
    assert begun[2].unpacked_bytes == 0
    assert checks.waiting_bytes == WAITING_BYTES_MAX
    worker.step()
    worker.step()
    assert (done, checks.waiting_bytes) == ([None, None], 0)
    assert [(check.is_over, check.fault) for check in begun] == [(True, None)] * 3


def test_the_batches_of_one_request_take_no_more_than_their_share_under_their_topic_s_codec() -> None:
    """A few kilobytes each, and hundreds of them in a request: unpacked they would all be kept until the last is."""
    worker = StepWorker()
    checks = RecordChecks(lambda name: worker)
    config = LogConfig(compression_type=Codec.NONE, max_message_bytes=12 * 2**20)
    batch = bytes(build_batch([Record(0, TIME, b"k", bytes(11 * 2**20))], codec=Codec.ZSTD))
    begun = [BatchCheck(memoryview(bytearray(batch)), config) for _ in range(8)]
    done: list[BaseException | None] = []
    checks.run(begun, 8 * len(batch), done.append)
    while not done:
        worker.step()
    kept = [len(check.recompressed or b"") for check in begun]
    assert sum(kept) <= RECOMPRESSED_BYTES_MAX
    assert [bool(size) for size in kept] == [True] * 5 + [False] * 3


def test_a_request_with_many_batches_that_unpack_to_much_lets_the_requests_of_others_have_their_turn() -> None:
    worker = StepWorker()
    checks = RecordChecks(lambda name: worker)
    done: list[str] = []
    bomb = bytes(build_batch([Record(0, TIME, b"k", bytes(10**6))], codec=Codec.ZSTD))
    many = [BatchCheck(memoryview(bytearray(bomb)), LogConfig()) for _ in range(40)]
    checks.run(many, 40 * len(bomb), lambda error: done.append("many"))
    other = BatchCheck(memoryview(bytearray(long_batch())), LogConfig())
    checks.run([other], len(long_batch()), lambda error: done.append("other"))
    worker.step()
    assert 0 < sum(check.is_over for check in many) * many[0].unpacked_bytes_max <= TURN_BYTES
    worker.step()
    assert (done, other.is_over) == (["other"], True)
    while worker.jobs:
        worker.step()
    assert (done, checks.waiting_bytes) == (["other", "many"], 0)
    assert all(check.is_over and check.fault is None for check in many)
