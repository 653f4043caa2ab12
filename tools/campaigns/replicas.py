"""Searches all states of three replicas, in scopes that are too large for ``make test``. A seed is a scope's number.

Some scopes have millions of states, and need gigabytes of memory and about ten minutes.
"""

from __future__ import annotations

from typing import Any

from tests.properties.replication.exhaustive import search
from tests.properties.replication.scopes import LARGE_SCOPES
from tests.properties.replication.small_cluster import SmallCluster

COUNT = len(LARGE_SCOPES)
SOURCES = ("tests/properties/replication",)


def run(seed: int) -> dict[str, Any]:
    name, scope = list(LARGE_SCOPES.items())[seed]
    searched = search(SmallCluster(scope))
    return {
        "passed": searched.broken is None and searched.is_complete,
        "scope": name,
        "states": searched.states,
        "broken": searched.broken,
        "trace": list(searched.trace),
    }
