from __future__ import annotations

import asyncio
import contextlib

import pytest

from semel.testing.virtual.clock import START_MS, ManualClock, VirtualClock
from semel.testing.virtual.loop import VirtualLoop


def test_the_virtual_clock_starts_at_a_fixed_date_and_follows_the_loop() -> None:
    async def main(clock: VirtualClock) -> list[float]:
        read = [clock.now_ms(), clock.monotonic_ms()]
        await asyncio.sleep(0.1)
        await asyncio.sleep(0.7)  # Which makes 0.7999999999999999.
        return [*read, clock.now_ms(), clock.monotonic_ms()]

    loop = VirtualLoop()
    assert loop.run(main(VirtualClock(loop))) == [START_MS, 0.0, START_MS + 800, 800.0]


def test_setting_the_wall_clock_leaves_the_monotonic_clock_alone() -> None:
    with contextlib.closing(VirtualLoop()) as loop:
        clock = VirtualClock(loop, skew_ms=500)
        clock.advance(-2000)
        assert (clock.now_ms(), clock.monotonic_ms()) == (START_MS - 1500, 0.0)


def test_the_manual_clock_moves_only_forward_and_only_when_told() -> None:
    clock = ManualClock(1000)
    clock.advance(250)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1250, 250.0)
    with pytest.raises(ValueError, match="never goes back"):
        clock.advance(-1)
