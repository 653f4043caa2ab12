"""What a request costs does not grow with the number of transactional ids that are known, and an id costs little."""

from __future__ import annotations

from functools import partial

from semel.coordinator.transaction.listing import ListFilters
from semel.coordinator.transaction.records import decode, encode
from semel.coordinator.transaction.shard import TransactionShard
from semel.types import TopicPartition
from tests.executed_lines import lines_executed
from tests.memory import held_bytes
from tests.unit.coordinator.transaction.bench import ID, P0, P1, TIMEOUT_MS, Bench


def with_ids(bench: Bench, number: int) -> Bench:
    for one in range(number):
        bench.run(bench.decide_init(transactional_id=f"another-transactional-id-{one}"))
    bench.init()
    return bench


def a_life(bench: Bench) -> None:
    """Everything that a handler can be asked to do."""
    identity = bench.init()
    for committed in (True, False):
        bench.add(identity, P0)
        bench.add(identity, P0, P1)
        bench.decide_add(identity, P1, verify_only=True)
        bench.shard.list(ListFilters(states=("Ongoing", "PrepareCommit")), now_ms=bench.now_ms)
        bench.shard.list(ListFilters(duration_ms=1_000), now_ms=bench.now_ms)
        bench.shard.describe(ID)
        identity = bench.end(identity, committed=committed)
        bench.shard.pending_markers()
        bench.write_markers()
    bench.add(identity, P0)
    bench.now_ms += TIMEOUT_MS + 1
    for decision in bench.shard.time_out(bench.moment):
        bench.run(decision)
    bench.write_markers()
    bench.shard.expire(bench.now_ms, examined_max=10)


def test_no_handler_costs_more_because_more_ids_are_known() -> None:
    few, many = with_ids(Bench(), 20), with_ids(Bench(), 5_000)
    for bench in (few, many):
        a_life(bench)
    few_lines, many_lines = (lines_executed(partial(a_life, bench), within="coordinator") for bench in (few, many))
    assert few_lines == many_lines


def test_a_known_id_takes_less_than_half_a_kilobyte() -> None:
    """A million of them: less than 500 MB, and loading makes it no worse."""
    log = with_ids(Bench(), 5_000).log
    loaded(log)  # What is made only once is no part of what an id takes.
    assert held_bytes(lambda: loaded(log)) / len(loaded(log)) < 450


def test_a_transaction_of_many_partitions_leaves_no_memory_behind() -> None:
    """They are added one by one, as their first batches arrive: each addition makes another set."""

    def transact(partitions: int) -> None:
        bench = Bench()
        identity = bench.init()
        for partition in range(partitions):
            bench.add(identity, TopicPartition("orders", partition))
        bench.end(identity, committed=True)
        bench.write_markers()
        bench.log.clear()

    transact(1)  # What is made only once is not counted.
    assert held_bytes(lambda: transact(1_000)) < 1_000_000


def loaded(log: list[tuple[bytes, bytes | None]]) -> TransactionShard:
    shard = Bench().shard
    for key, value in log:
        record = decode(key, value)
        assert record is not None
        assert encode(record) == (key, value)
        shard.replay(record)
    return shard
