"""Every attack of ``tools/hostile`` on a broker of its own, then ten more seeds of each fuzz, all with a canary."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import tools.hostile.attacks  # noqa: F401 (importing it fills ATTACKS)
from tools.brokers import semel
from tools.hostile.attack_context import ATTACKS
from tools.hostile.trial import SETTINGS, withstand

_NAMES = list(ATTACKS)
_AGAIN = [name for name in _NAMES if name.startswith("fuzz-")]
_FURTHER_FUZZ = 10

RESULTS_KEPT_MAX = 1000
COUNT = len(_NAMES) + _FURTHER_FUZZ * len(_AGAIN)


def run(seed: int) -> dict[str, Any]:
    name = _NAMES[seed] if seed < len(_NAMES) else _AGAIN[seed % len(_AGAIN)]
    with tempfile.TemporaryDirectory(prefix="semel-hostile-") as folder:
        trial = withstand(semel(Path(folder), settings=SETTINGS), [ATTACKS[name]], seed=seed)
    result = trial.results[0] if trial.results else None
    told: dict[str, Any] = {"attack": name, "passed": trial.passed, "findings": trial.failures()}
    told |= {"stop_ms": int(trial.stop_seconds * 1000), "produced": trial.produced}
    if result is not None:
        told |= {
            "answers": result.answers,
            "memory_peak_mb": result.memory_peak_mb,
            "cpu_seconds": result.cpu_seconds,
            "attack_seconds": result.seconds,
            "longest_turn_ms": result.longest_turn_ms,
            "longest_wait_ms": result.canary.broker_ms,
            "longest_wait_at": result.canary.broker_at,
            "longest_wait_by_the_clock_ms": result.canary.longest_ms,
            "canary_rounds": result.canary.rounds,
        }
    return told
