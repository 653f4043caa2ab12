"""Loading: the replay of the log gives the shard that was there, or no shard at all."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from semel.broker.coordinators.shard_loading import AT_ONCE_MS, LoadingQueue, ShardLoading
from semel.broker.coordinators.shard_runtime import ShardRuntime
from semel.errors import ErrorCode
from semel.testing.virtual.disk_faults import DiskFault, Operation
from semel.types import ProducerIdentity
from semel.wire.control import EndTransactionMarker
from tests.unit.broker.coordinators.shard_bench import Bench, Noted, Numbers

PRODUCER = ProducerIdentity(7, 0)


def load(bench: Bench, **how: Any) -> ShardRuntime[Numbers]:
    """A new term of leadership over the same log; begun, if not finished."""
    runtime = bench.new_runtime()
    ShardLoading(
        runtime, loop=bench.loop, clock=bench.clock, loaded=lambda loaded: bench.told.append("loaded"), **how
    ).begin()
    return runtime


def test_a_loaded_shard_is_the_one_that_was_there() -> None:
    bench = Bench()
    bench.note("a", 1)
    bench.runtime.run(lambda shard: shard.note("b", 2), bench.waiter, producer=PRODUCER)
    bench.note("a", 3)
    bench.runtime.append_marker(PRODUCER, EndTransactionMarker(True, 0), transaction_version=0)
    bench.runtime.run(lambda shard: shard.note("c", 4), bench.waiter, producer=PRODUCER)
    bench.wait()

    loaded = load(bench)
    assert loaded.refusal is None
    assert vars(loaded.shard) == vars(bench.shard)
    assert loaded.shard.numbers == {"a": 3, "b": 2}
    assert loaded.shard.pending == {7: [("c", 4)]}


def test_an_empty_shard_is_ready_at_once() -> None:
    assert load(Bench()).refusal is None


def test_what_is_appended_and_not_yet_safe_is_waited_for() -> None:
    bench = Bench()
    bench.note("a", 1)
    loaded = load(bench)
    assert loaded.refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    bench.wait()
    assert (loaded.refusal, loaded.shard.numbers) == (None, {"a": 1})


def test_a_long_log_is_loaded_in_slices_between_which_others_get_their_turn() -> None:
    bench = Bench()
    for number in range(20):
        bench.note("a", number)
    bench.wait()
    loaded = load(bench, slice_ms=0, read_bytes=100)
    turns = 0
    while loaded.refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        turns += 1
        bench.wait(0)
    assert turns > 5
    assert loaded.shard.history == bench.shard.history


def test_shards_that_are_loaded_together_take_one_slice_per_turn_and_the_first_is_ready_first() -> None:
    bench = Bench()
    for number in range(20):
        bench.note("a", number)
    bench.wait()
    queue = LoadingQueue(bench.loop)
    first, second, third = (load(bench, slice_ms=0, read_bytes=100, queue=queue) for _ in range(3))
    while first.refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        assert second.shard.history == third.shard.history == []
        bench.wait(0)
    while second.refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        assert third.shard.history == []
        bench.wait(0)
    bench.wait()
    assert third.refusal is None
    assert first.shard.history == second.shard.history == third.shard.history == bench.shard.history


def test_many_small_shards_are_not_all_loaded_in_one_turn() -> None:
    """Each would be loaded at once if it were alone."""

    class Ticking:
        """A clock by which each reading takes a millisecond."""

        now = 0.0

        def monotonic_ms(self) -> float:
            self.now += 1
            return self.now

        def now_ms(self) -> int:
            return 0

    bench = Bench()
    bench.note("a", 1)
    bench.wait()
    queue, clock = LoadingQueue(bench.loop), Ticking()
    bench.clock = clock  # type: ignore[assignment]
    runtimes = [load(bench, queue=queue) for _ in range(100)]
    at_once = [runtime.refusal for runtime in runtimes].count(None)
    assert AT_ONCE_MS / 5 < at_once <= AT_ONCE_MS
    turns = bench.loop.steps
    bench.wait()
    assert all(runtime.refusal is None for runtime in runtimes)
    assert bench.loop.steps - turns >= 100 - at_once
    assert load(bench, queue=queue).refusal is None, "in a turn in which none was loaded"


def test_a_shard_that_is_lost_in_the_queue_does_not_hold_up_the_others() -> None:
    bench = Bench()
    for number in range(20):
        bench.note("a", number)
    bench.wait()
    queue = LoadingQueue(bench.loop)
    first, second = (load(bench, slice_ms=0, read_bytes=100, queue=queue) for _ in range(2))
    first.unload()
    bench.wait()
    assert (first.refusal, second.refusal) == (ErrorCode.NOT_COORDINATOR, None)


def test_a_shard_whose_replay_fails_unexpectedly_is_refused_and_does_not_hold_up_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    for number in range(20):
        bench.note("a", number)
    bench.wait()
    queue = LoadingQueue(bench.loop)
    failing, *others = (load(bench, slice_ms=0, read_bytes=100, queue=queue) for _ in range(3))

    def replay(*record: Any) -> None:
        raise RuntimeError("a bug of the shard")

    failing.shard.replay = replay  # type: ignore[method-assign]
    bench.wait()
    assert failing.refusal is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "RuntimeError: a bug of the shard" in str(failing.failure)
    assert "could not be replayed" in caplog.text
    assert [other.shard.history for other in others] == [bench.shard.history] * 2


def test_a_slice_that_raises_does_not_hold_up_the_shards_behind_it() -> None:
    bench = Bench()
    for number in range(20):
        bench.note("a", number)
    bench.wait()
    queue = LoadingQueue(bench.loop)

    def fails() -> None:
        raise RuntimeError("a bug")

    queue.join(fails)
    loaded = load(bench, queue=queue)
    with pytest.raises(RuntimeError, match="a bug"):
        bench.wait()
    bench.wait()
    assert (loaded.refusal, loaded.shard.history) == (None, bench.shard.history)


def test_scenario_37_a_log_that_is_corrupt_gives_no_shard_rather_than_half_of_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    bench.note("a", 1)
    bench.note("b", 2)
    bench.wait()
    segment = bench.log.segments.active
    segment.file.write(segment.size_bytes - 3, b"\xff")
    loaded = load(bench)
    assert loaded.refusal is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "could not be loaded" in caplog.text
    loaded.run(lambda shard: shard.read("a"), bench.waiter)
    assert bench.told[-1] is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_shard_that_is_lost_while_it_is_loaded_is_not_taken_up() -> None:
    bench = Bench()
    bench.note("a", 1)
    loaded = load(bench)
    loaded.unload()
    bench.wait()
    assert loaded.refusal is ErrorCode.NOT_COORDINATOR
    assert bench.told == [Noted(1)]


def test_a_shard_is_loaded_later_if_no_file_can_be_opened_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    """A closed segment is opened for each read, and the connections may have taken all descriptors."""
    bench = Bench()
    for segment in range(3):
        for number in range(5):
            bench.note(f"{segment}", number)
        bench.wait()
        bench.log.roll(0)
    bench.logs.checkpoint()
    bench.wait()
    bench.disk.fail(DiskFault(Operation.OPEN, "*.log", error=errno.EMFILE, skip=2, times=3))
    loaded = load(bench, read_bytes=100)
    assert loaded.refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert "Too many open files" in caplog.text
    bench.wait(10)
    assert loaded.refusal is None
    assert vars(loaded.shard) == vars(bench.shard)


def test_a_shard_that_is_lost_while_no_file_can_be_opened_is_not_loaded() -> None:
    bench = Bench()
    bench.note("a", 1)
    bench.wait()
    bench.log.roll(0)
    bench.logs.checkpoint()
    bench.wait()
    bench.disk.fail(DiskFault(Operation.OPEN, "*.log", error=errno.EMFILE))
    loaded = load(bench)
    loaded.unload()
    bench.wait(10)
    assert loaded.refusal is ErrorCode.NOT_COORDINATOR
    assert "loaded" not in bench.told
