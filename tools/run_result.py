"""The result of a run under faults, as JSON for the campaign's table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Protocol

ANOMALIES_MAX = 20


class RunResult(Protocol):
    """The result of a run: a frozen dataclass with these two properties and fields of its own."""

    @property
    def anomalies(self) -> Sequence[object]: ...

    @property
    def passed(self) -> bool: ...


def to_json(result: RunResult) -> dict[str, Any]:
    """Return all fields of the result, the first anomalies as text, and whether the run passed."""
    fields: dict[str, Any] = asdict(result)  # type: ignore[call-overload]
    anomalies = [str(anomaly) for anomaly in result.anomalies[:ANOMALIES_MAX]]
    return {**fields, "anomalies": anomalies, "passed": result.passed}
