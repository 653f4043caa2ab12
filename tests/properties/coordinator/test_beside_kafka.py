"""The shard beside Apache Kafka's own coordinator: any requests, in any order; answers, state and bytes are the same.

Where they differ, the difference is one of those that ``docs/design/transaction-states.md`` names, and each of those is
seen: the page claims neither too little nor too much.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from semel.coordinator.transaction.records import Transaction, decode, encode
from semel.coordinator.transaction.settings import TransactionSettings
from semel.coordinator.transaction.states import IDLE, TxnState
from semel.types import ProducerIdentity, TopicPartition
from tests.properties.coordinator.kafka_coordinator import Kafka, State, kafka_coordinator
from tests.unit.coordinator.transaction.bench import Bench

pytestmark = [pytest.mark.kafka, pytest.mark.needs("kafka")]

ID = "id"
STRANGER = ProducerIdentity(7, 3)
SEQUENCES = 3_000


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with kafka_coordinator() as running:
        yield running


class Differs(Exception):
    """In the way that the name says."""


def test_every_answer_is_kafkas_but_for_the_differences_that_are_documented(kafka: Kafka) -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEQUENCES):
        try:
            Sequence(kafka, random.Random(seed)).run()
        except Differs as difference:
            seen[str(difference)] += 1
    assert seen.keys() == {
        "an old identity does not abort what is open",
        "a repeated init is answered again, without a record",
        "at the last epoch an old identity is fenced",
        "an end of the epoch before is repeated only from whom it was bumped from",
        "the last epoch is forgotten when a transaction begins",
    }


class Sequence:
    """The same commands for both, until they differ."""

    def __init__(self, kafka: Kafka, choose: random.Random) -> None:
        self.kafka, self.choose = kafka, choose
        self.version = choose.choice((2, 2, 2, 1))
        self.bench = Bench(TransactionSettings(transaction_version=self.version))
        self.identities = [STRANGER]
        self.producer_id = 999
        kafka("reset", self.version, self.bench.now_ms)

    def run(self) -> None:
        commands = [self.init] * 2 + [self.add] * 4 + [self.verify] + [self.end] * 4 + [self.markers] * 3
        commands += [self.time, self.age, self.restart]
        for _ in range(self.choose.randint(3, 30)):
            before = self.bench.shard.get(ID)
            if before is not None:
                self.producer_id = max(self.producer_id, before.producer_id, before.next_producer_id or 0)
                self.identities.append(ProducerIdentity(before.producer_id, before.producer_epoch))
            # Kafka takes an id where it uses one; the bench takes one where it may.
            self.bench.producer_ids = map(int, range(self.producer_id + 1, self.producer_id + 9))
            self.choose.choice(commands)(before)

    # -- commands

    def init(self, before: Transaction | None) -> None:
        asking = self.choose.choice((None, self.identity()))
        timeout_ms = self.choose.choice((60_000, 1_000, 900_001))
        answer, state = self.kafka("init", timeout_ms, *(asking or (-1, -1)))
        result = self.bench.run(self.bench.decide_init(asking, transactional_id=ID, timeout_ms=timeout_ms))
        ours = f"{int(result.error)} {_or_absent(result.producer_id)} {_or_absent(result.producer_epoch)}"
        if (ours, self.state()) == (answer, state):
            return
        assert asking is not None
        assert before is not None
        assert not before.is_present(*asking)
        if before.state is TxnState.ONGOING:
            raise Differs("an old identity does not abort what is open")
        if before.is_last(*asking):
            raise Differs("a repeated init is answered again, without a record")
        if before.epochs_exhausted and answer.startswith("-1 "):
            raise Differs("at the last epoch an old identity is fenced")
        assert (ours, answer.split()[0]) == ("90 -1 -1", "0")
        raise Differs("the last epoch is forgotten when a transaction begins")

    def add(self, before: Transaction | None) -> None:
        asking, numbers, version = self.identity(), self.numbers(), self.client_version()
        answer, state = self.kafka("add", *asking, _joined(numbers), version)
        result = self.bench.run(
            self.bench.decide_add(asking, *_partitions(numbers), version=version, transactional_id=ID)
        )
        assert (str(int(result.error)), self.state()) == (answer, state)

    def verify(self, before: Transaction | None) -> None:
        asking, numbers = self.identity(), self.numbers()
        answer, _ = self.kafka("verify", *asking, _joined(numbers))
        result = self.bench.decide_add(asking, *_partitions(numbers), verify_only=True, transactional_id=ID).response
        errors = {
            partition.partition: int(result.errors.get(partition, result.error)) for partition in _partitions(numbers)
        }
        assert "{" + ",".join(f"{number}={error}" for number, error in sorted(errors.items())) + "}" == answer

    def end(self, before: Transaction | None) -> None:
        asking, committed, version = self.identity(), self.choose.choice((True, False)), self.client_version()
        answer, state = self.kafka("end", *asking, "commit" if committed else "abort", version)
        if state is not None and state.state == TxnState.PREPARE_ABORT and state.partitions == "[]":
            _, state = self.kafka("markers")  # There are none to wait for.
        decision = self.bench.decide_end(asking, committed=committed, version=version, transactional_id=ID)
        result = self.bench.run(decision)
        ours = f"{int(result.error)} {_or_absent(result.producer_id)} {_or_absent(result.producer_epoch)}"
        if (ours, self.state()) == (answer, state):
            return
        assert before is not None
        assert version == 2
        assert (ours, answer.split()[0]) in (("90 -1 -1", "0"), ("90 -1 -1", "48"))
        assert before.last_producer_epoch != asking.producer_epoch
        raise Differs("an end of the epoch before is repeated only from whom it was bumped from")

    def markers(self, before: Transaction | None) -> None:
        _, state = self.kafka("markers")
        self.bench.write_markers()
        assert self.state() == state

    def time(self, before: Transaction | None) -> None:
        later_ms = self.choose.choice((1, 1_001, 60_001))
        _, state = self.kafka("time", later_ms)
        self.bench.now_ms += later_ms
        for decision in self.bench.shard.time_out(self.bench.moment):
            self.bench.run(decision)
        assert self.state() == state

    def age(self, before: Transaction | None) -> None:
        """Thousands of epochs later."""
        if before is None or before.state not in IDLE or before.last_producer_id != before.producer_id:
            return
        if before.producer_epoch < 30_000:
            epoch = self.choose.choice((32_764, 32_765, 32_766))
            self.kafka("epoch", epoch)
            self.bench.at_epoch(epoch, transactional_id=ID)

    def restart(self, before: Transaction | None) -> None:
        if before is None:
            return
        key, ours = encode(before, transaction_version=self.version)
        assert ours is not None
        theirs, state = self.kafka("restart", ours.hex())
        self.bench.crash()
        assert self.state() == state, "Kafka reads what we write"
        read = decode(key, bytes.fromhex(theirs))
        assert isinstance(read, Transaction)
        assert read._replace(last_producer_epoch=before.last_producer_epoch) == before, "we read what Kafka writes"
        # One more tagged field, if there is a last epoch to tell of that Kafka forgets.
        assert len(ours) - len(theirs) // 2 == (0 if read == before else 5)

    # -- inside

    def state(self) -> State | None:
        return State.of(self.bench.shard.get(ID))

    def identity(self) -> ProducerIdentity:
        present = self.identities[-1]
        before = ProducerIdentity(present.producer_id, max(0, present.producer_epoch - 1))
        return self.choose.choice([*self.identities[-4:], present, present, present, before])

    def numbers(self) -> list[int]:
        return self.choose.sample(range(3), self.choose.randint(1, 2))

    def client_version(self) -> int:
        return self.choose.choice((0, 2)) if self.version == 2 else 0


def _partitions(numbers: list[int]) -> list[TopicPartition]:
    return [TopicPartition("t", number) for number in numbers]


def _joined(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))


def _or_absent(value: int | None) -> int:
    return -1 if value is None else value
