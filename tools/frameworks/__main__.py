"""Run all frameworks, or those named, and write ``benchmarks/results/frameworks.json``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from semel.testing import Broker
from tools.frameworks.environments import ROOT, python_of, version_of
from tools.frameworks.killed_run import COPIES, COUNTS, killed_run

_PROGRAMS: Final = Path(__file__).resolve().parent / "programs"
_RESULTS: Final = ROOT / "benchmarks" / "results" / "frameworks.json"


def faststream() -> dict[str, object]:
    program = [str(python_of("faststream")), str(_PROGRAMS / "faststream_copy.py")]
    result = killed_run(lambda state: program, COPIES)
    run = "a subscriber that publishes, killed in the middle: nothing is lost, values may come again"
    return {"version": version_of("faststream", "faststream"), "run": run, **result}


def quix_streams() -> dict[str, object]:
    program = [str(python_of("quix")), str(_PROGRAMS / "quix_counts.py")]
    result = killed_run(lambda state: [*program, str(state)], COUNTS)
    run = "processing_guarantee=exactly-once with a state store, killed in the middle: every count once"
    return {"version": version_of("quix", "quixstreams"), "run": run, **result}


def faust() -> dict[str, object]:
    program = [str(python_of("faust")), str(_PROGRAMS / "faust_copy.py"), "worker", "-l", "error", "--without-web"]
    result = killed_run(lambda state: [*program, str(state)], COPIES)
    run = "an agent that sends on, killed in the middle: nothing is lost, values may come again"
    return {"version": version_of("faust", "faust-streaming"), "run": run, **result}


def confluent_serializers() -> dict[str, object]:
    python = python_of("confluent", with_semel=True)
    with Broker() as broker:
        done = subprocess.run(
            [str(python), str(_PROGRAMS / "confluent_schemas.py")],
            env={**os.environ, "BOOTSTRAP_SERVERS": broker.bootstrap_servers},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    run = "Avro, JSON Schema and Protobuf through Semel's client and a registry in memory"
    faults = [] if done.returncode == 0 else [done.stdout[-2000:]]
    version = version_of("confluent", "confluent-kafka")
    return {"version": version, "run": run, "faults": faults, "passed": not faults}


FRAMEWORKS: Final[Mapping[str, Callable[[], dict[str, object]]]] = {
    "FastStream": faststream,
    "Quix Streams": quix_streams,
    "Faust (faust-streaming)": faust,
    "Confluent's serializers": confluent_serializers,
}


def main() -> int:
    wanted = sys.argv[1:] or list(FRAMEWORKS)
    unknown = [name for name in wanted if name not in FRAMEWORKS]
    if unknown:
        print(f"semel: {unknown[0]} is none of {', '.join(FRAMEWORKS)}", file=sys.stderr)
        return 2
    results = json.loads(_RESULTS.read_text()) if _RESULTS.exists() else {}
    for name in wanted:
        try:
            results[name] = FRAMEWORKS[name]()
        except AssertionError as error:
            results[name] = {"faults": [str(error)], "passed": False}
        print(f"semel: {name}: {'passed' if results[name]['passed'] else results[name]['faults']}", flush=True)
        _RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    return 0 if all(results[name]["passed"] for name in wanted) else 1


if __name__ == "__main__":
    sys.exit(main())
