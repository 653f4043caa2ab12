"""What a shard writes on its own account and nobody waits for costs no sync, unless nothing else comes along."""

from __future__ import annotations

from semel.broker.coordinators.deferred_sync import SYNC_WITHIN_MS
from semel.broker.coordinators.shard_loading import ShardLoading
from tests.unit.broker.coordinators.shard_bench import SYNC_MS, Bench, Noted


def syncs_of(scene: Bench) -> int:
    return scene.logs.statistics.groups


def test_it_shares_the_sync_of_what_is_written_next() -> None:
    scene = Bench()
    before = syncs_of(scene)
    assert scene.runtime.apply(scene.shard.note("a", 1))
    scene.wait(2 * SYNC_MS / 1000)
    assert syncs_of(scene) == before
    scene.note("b", 2)
    scene.wait(3 * SYNC_MS / 1000)
    assert scene.told == [Noted(2)]
    assert syncs_of(scene) == before + 1
    assert scene.log.durable_offset == scene.log.log_end_offset
    scene.wait()
    assert syncs_of(scene) == before + 1


def test_it_is_synced_by_itself_a_moment_later() -> None:
    scene = Bench()
    assert scene.runtime.apply(scene.shard.note("a", 1))
    assert scene.log.durable_offset < scene.log.log_end_offset
    scene.wait((SYNC_WITHIN_MS + 10 + SYNC_MS) / 1000)
    assert scene.log.durable_offset == scene.log.high_watermark == scene.log.log_end_offset


def test_whoever_asks_what_rests_on_it_does_not_wait_for_that_moment() -> None:
    scene = Bench()
    assert scene.runtime.apply(scene.shard.note("a", 1))
    scene.runtime.run(lambda shard: shard.read("a"), scene.told.append)
    assert scene.told == []
    scene.wait(2 * SYNC_MS / 1000)
    assert scene.told == [Noted(1)]


def test_what_has_effects_is_waited_for() -> None:
    scene = Bench()
    assert scene.runtime.apply(scene.shard.note("a", 1, "markers"))
    scene.wait(2 * SYNC_MS / 1000)
    assert scene.told == ["markers"]


def test_a_shard_that_is_loaded_anew_has_it_and_does_not_wait_for_that_moment() -> None:
    scene = Bench()
    assert scene.runtime.apply(scene.shard.note("a", 1))
    scene.runtime.unload()
    loaded = scene.new_runtime()
    ShardLoading(loaded, loop=scene.loop, clock=scene.clock, loaded=lambda _: None).begin()
    scene.wait(2 * SYNC_MS / 1000)
    assert (loaded.refusal, loaded.shard.numbers) == (None, {"a": 1})
