"""Distributions of latencies, for the links and workers of a simulation.

A ``Latency`` is a function that draws a number of milliseconds, never negative, from a ``Random``.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeAlias

Latency: TypeAlias = Callable[[Random], float]


def constant_ms(value_ms: float) -> Latency:
    return lambda random: value_ms


def uniform_ms(low_ms: float, high_ms: float) -> Latency:
    return lambda random: random.uniform(low_ms, high_ms)


def mostly(usual: Latency, rare: Latency, *, rare_probability: float) -> Latency:
    """Return a latency that is usually drawn from ``usual`` and sometimes from ``rare``, as for a disk that stalls."""
    return lambda random: (rare if random.random() < rare_probability else usual)(random)
