"""What a shard writes on its own account and nobody waits for costs no sync, unless nothing else comes along."""

from __future__ import annotations

from semel.broker.coordinators.deferred_sync import SYNC_WITHIN_MS
from semel.broker.coordinators.shard_loading import ShardLoading
from tests.unit.broker.coordinators.shard_bench import SYNC_MS, Bench, Noted


def syncs_of(bench: Bench) -> int:
    return bench.logs.statistics.groups


def test_it_shares_the_sync_of_what_is_written_next() -> None:
    bench = Bench()
    before = syncs_of(bench)
    assert bench.runtime.apply(bench.shard.note("a", 1))
    bench.wait(2 * SYNC_MS / 1000)
    assert syncs_of(bench) == before
    bench.note("b", 2)
    bench.wait(3 * SYNC_MS / 1000)
    assert bench.told == [Noted(2)]
    assert syncs_of(bench) == before + 1
    assert bench.log.durable_offset == bench.log.log_end_offset
    bench.wait()
    assert syncs_of(bench) == before + 1


def test_it_is_synced_by_itself_a_moment_later() -> None:
    bench = Bench()
    assert bench.runtime.apply(bench.shard.note("a", 1))
    assert bench.log.durable_offset < bench.log.log_end_offset
    bench.wait((SYNC_WITHIN_MS + 10 + SYNC_MS) / 1000)
    assert bench.log.durable_offset == bench.log.high_watermark == bench.log.log_end_offset


def test_whoever_asks_what_rests_on_it_does_not_wait_for_that_moment() -> None:
    bench = Bench()
    assert bench.runtime.apply(bench.shard.note("a", 1))
    bench.runtime.run(lambda shard: shard.read("a"), bench.waiter)
    assert bench.told == []
    bench.wait(2 * SYNC_MS / 1000)
    assert bench.told == [Noted(1)]


def test_what_has_effects_is_waited_for() -> None:
    bench = Bench()
    assert bench.runtime.apply(bench.shard.note("a", 1, "markers"))
    bench.wait(2 * SYNC_MS / 1000)
    assert bench.told == ["markers"]


def test_a_shard_that_is_loaded_anew_has_it_and_does_not_wait_for_that_moment() -> None:
    bench = Bench()
    assert bench.runtime.apply(bench.shard.note("a", 1))
    bench.runtime.unload()
    loaded = bench.new_runtime()
    ShardLoading(loaded, loop=bench.loop, clock=bench.clock, loaded=lambda _: None).begin()
    bench.wait(2 * SYNC_MS / 1000)
    assert (loaded.refusal, loaded.shard.numbers) == (None, {"a": 1})
