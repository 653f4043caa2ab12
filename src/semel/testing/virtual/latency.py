"""Latencies: distributions that are drawn from a given ``Random``.

A ``Latency`` is a function from randomness to milliseconds, never negative. Links and workers are given one each.
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
    """Usually the one, now and then the other: a link with hiccups, a disk that stalls."""
    return lambda random: (rare if random.random() < rare_probability else usual)(random)
