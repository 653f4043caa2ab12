"""Open transactions that no coordinator knows as open are ended, however many there are, a few in each turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from semel.broker.coordinators.reconciliation import ENDED_PER_TURN, LOOKED_AT_PER_TURN, Reconciliation
from semel.broker.turns import Turns
from semel.coordinator.transaction import records, transitions
from semel.coordinator.transaction.settings import TransactionSettings
from semel.coordinator.transaction.shard import TransactionShard
from semel.coordinator.transaction.states import TxnState
from semel.log.producers.producer_state import OpenTransaction
from semel.testing.virtual.clock import ManualClock
from semel.types import ProducerIdentity, TopicPartition

ORDERS = TopicPartition("orders", 0)


class Shard(TransactionShard):
    """A shard that notes how many of its transactions are decoded."""

    def __init__(self) -> None:
        super().__init__(
            partition=0, coordinator_epoch=3, settings=TransactionSettings(), next_producer_id=lambda: None
        )
        self.decoded = 0

    def get(self, transactional_id: str) -> Any:
        self.decoded += 1
        return super().get(transactional_id)

    def list_some(self, transactional_ids: Any, filters: Any, *, now_ms: int) -> Any:
        transactional_ids = list(transactional_ids)
        self.decoded += len(transactional_ids)
        return super().list_some(transactional_ids, filters, now_ms=now_ms)


class Transactions(list[Any]):
    """The shards that this broker leads, as ``Coordinator`` has them."""

    has_broken_shards = False

    @property
    def all_led_shards_loaded(self) -> bool:
        return bool(self) and all(runtime.refusal is None for runtime in self)


class Producers:
    """The state of the partition's producers."""

    def __init__(self, opened: dict[int, OpenTransaction]) -> None:
        self._opened = opened

    @property
    def open_transactions(self) -> list[OpenTransaction]:
        return list(self._opened.values())

    def open_transaction_at(self, first_offset: int) -> OpenTransaction | None:
        return self._opened.get(first_offset)

    def coordinator_epoch(self, producer_id: int) -> int | None:
        return None


class Led:
    """A partition that is led here, with open transactions, and one coordinator that may know them."""

    def __init__(self, opened: int) -> None:
        clock = ManualClock()
        self.opened = {number: OpenTransaction(number, 0, number, 0) for number in range(opened)}
        self.ended: dict[int, bool] = {}
        """The outcomes, by producer id."""
        self.known: frozenset[int] = frozenset()
        self.shard = Shard()
        self.transactions = Transactions([SimpleNamespace(shard=self.shard, refusal=None, epoch=3)])
        self.partition = SimpleNamespace(
            topic_partition=ORDERS,
            log=SimpleNamespace(producers=Producers(self.opened), high_watermark=1),
            gate=SimpleNamespace(knows=lambda producer_id: producer_id in self.known),
            append_marker=self._append_marker,
        )
        node = SimpleNamespace(
            peers=None,
            clock=clock,
            turns=Turns(clock),
            partitions=SimpleNamespace(get=lambda topic, index: self.partition),
            led_partition=lambda topic, index: self.partition,
            image=SimpleNamespace(topics={}),
        )
        self.reconciliation = Reconciliation(cast(Any, node), cast(Any, self.transactions), asyncio.get_running_loop())

    def _append_marker(self, producer: ProducerIdentity, marker: Any, **rest: object) -> Any:
        self.ended[producer.producer_id] = marker.committed
        del self.opened[producer.producer_id]
        return SimpleNamespace(last_offset=0)

    def look(self) -> None:
        self.reconciliation.look_at([cast(Any, self.partition)])

    async def until_done(self, each_turn: Callable[[int], None] = lambda turn: None) -> tuple[int, int]:
        """Return the most transactions that were ended, and decoded, in one turn of the event loop."""
        most_ended = most_decoded = turn = 0
        ended, decoded = 0, 0
        while True:
            await asyncio.sleep(0)
            turn += 1
            each_turn(turn)
            most_ended = max(most_ended, len(self.ended) - ended)
            most_decoded = max(most_decoded, self.shard.decoded - decoded)
            ended, decoded = len(self.ended), self.shard.decoded
            if self.reconciliation._asking is None:
                return most_ended, most_decoded

    def completed(self, number: int) -> None:
        """The coordinator knows the producer's transaction as committed."""
        completed = transitions.created(f"t{number}", producer_id=number, timeout_ms=1, now_ms=0)
        record = completed._replace(state=TxnState.COMPLETE_COMMIT, last_producer_epoch=0, client_transaction_version=2)
        known = self.shard.decode(*records.encode(record))
        assert known is not None
        self.shard.replay(known)


def test_very_many_transactions_are_ended_in_many_turns() -> None:
    """After an unclean election: each of them takes some 100 us."""

    async def scenario() -> None:
        led = Led(opened=2500)
        for number in range(0, 2500, 2):
            led.completed(number)
        led.look()
        assert await led.until_done() == (ENDED_PER_TURN, LOOKED_AT_PER_TURN)
        assert led.ended == {number: number % 2 == 0 for number in range(2500)}

    asyncio.run(scenario())


def test_what_is_admitted_or_ended_between_two_turns_is_left_alone() -> None:
    async def scenario() -> None:
        led = Led(opened=3 * ENDED_PER_TURN)
        last = 3 * ENDED_PER_TURN - 1

        def admit(turn: int) -> None:
            if led.ended and not led.known:
                led.known = frozenset({last})
                del led.opened[last - 1]

        led.look()
        await led.until_done(admit)
        assert led.known
        assert not {last - 1, last} & led.ended.keys()
        assert len(led.ended) == last - 1

    asyncio.run(scenario())


def test_a_search_during_which_a_shard_was_loaded_is_done_again() -> None:
    """The shard may know what the others do not."""

    async def scenario() -> None:
        led, late = Led(opened=2), Led(opened=0)
        late.completed(0)
        led.completed(1)
        loading = SimpleNamespace(shard=late.shard, refusal=None, epoch=3)

        def load(turn: int) -> None:
            if led.shard.decoded and loading not in led.transactions:
                led.transactions.append(loading)

        led.look()
        await led.until_done(load)
        assert led.ended == {0: True, 1: True}

    asyncio.run(scenario())


def test_terms_that_begin_during_the_comparison_are_compared_afterwards() -> None:
    async def scenario() -> None:
        led = Led(opened=1)

        def begin(turn: int) -> None:
            if turn == 2:
                led.opened[7] = OpenTransaction(7, 0, 7, 0)
                led.look()

        led.look()
        await led.until_done(begin)
        assert led.ended == {0: False, 7: False}

    asyncio.run(scenario())
