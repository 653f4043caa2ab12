"""Five million inputs for the decoders, then half a million frames for a broker that a canary client uses meanwhile.

Seeds 0 to 49: 100,000 inputs each, for every decoder (``tools/fuzz``); about 20 seconds a seed. Seeds 50 to 74: 20,000
frames each, in sessions on a broker of its own with a plain listener, one with TLS, one with SASL, and one with both
(``tools/hostile``); about 40 seconds a seed, and a start, a stop and two more starts. On one core all seeds together
take 40 minutes.

A seed with a broker fails for the same reasons as every trial (a crash, a traceback, a lost or duplicate record of the
canary, 300 MB of memory, a log of 2 MiB, a stop that takes 10 seconds), and if the canary waited for more than a
second, not counting the time in which it or the broker waited for a processor.
"""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import Any

import tools.hostile.attacks  # noqa: F401 (importing it fills ATTACKS)
from tools.fuzz.run import run_seed
from tools.fuzz.targets import all_targets
from tools.hostile.attack_context import ATTACKS
from tools.hostile.attacks.sessions import FRAMES
from tools.hostile.secured import secured_broker
from tools.hostile.trial import STOP_SECONDS_MAX, withstand

DECODER_SEEDS = 50
INPUTS = 100_000
LIVE_SEEDS = 25
WAIT_MS_MAX = 1000

RESULTS_KEPT_MAX = 1000
COUNT = DECODER_SEEDS + LIVE_SEEDS


def run(seed: int) -> dict[str, Any]:
    return _decoders(seed) if seed < DECODER_SEEDS else _live(seed)


def _decoders(seed: int) -> dict[str, Any]:
    logger = logging.getLogger("semel")
    logger.propagate = False  # Each record of an unknown type logs a line, and here are a million of them.
    logger.addHandler(logging.NullHandler())
    return run_seed(all_targets(), seed, INPUTS).to_json()


def _live(seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="semel-fuzz-") as folder:
        trial = withstand(secured_broker(Path(folder)), [ATTACKS["sessions-that-begin-well"]], seed=seed)
    findings = trial.all_findings()
    told: dict[str, Any] = {"stop_ms": int(trial.stop_seconds * 1000), "produced": trial.produced}
    if trial.stop_seconds > STOP_SECONDS_MAX:
        findings.append(f"SIGTERM took {trial.stop_seconds} s")
    for result in trial.results:
        if result.canary.broker_ms > WAIT_MS_MAX:
            findings.append(f"the canary waited {result.canary.broker_ms} ms ({result.canary.broker_at})")
        if result.answers["frames"] < FRAMES:
            findings.append(f"{result.answers['frames']} of {FRAMES} frames were sent")
        told |= {
            "answers": result.answers,
            "memory_peak_mb": result.memory_peak_mb,
            "longest_turn_ms": result.longest_turn_ms,
            "longest_wait_ms": result.canary.broker_ms,
            "longest_wait_by_the_clock_ms": result.canary.longest_ms,
            "canary_rounds": result.canary.rounds,
            "requests_answered": result.requests_answered,
        }
    return {"passed": not findings, "findings": findings, **told}
