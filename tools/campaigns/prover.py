"""Runs the prover on applications that are known to be exactly-once or not, each in every scenario that fits it.

``make test`` runs each planted bug in the scenario that is made for it. Here a proof with all scenarios has to find the
bug, and to pass the correct applications, with other random kills for each seed.
"""

from __future__ import annotations

from typing import Any

from semel.testing import exactly_once
from tests.clients.own.planted_applications import GIVEN, RIGHT, expected_of
from tests.clients.own.test_exactly_once import PLANTED

APPLICATIONS = (*RIGHT, *(application for application, _, _ in PLANTED))
SOURCES = ("tests/clients/own",)
COUNT = 3 * len(APPLICATIONS)


def run(seed: int) -> dict[str, Any]:
    application = APPLICATIONS[seed % len(APPLICATIONS)]
    is_right = application in RIGHT
    name = application.__name__
    try:
        results = exactly_once.prove(application, given=GIVEN, expect=expected_of(application), seed=seed)
    except AssertionError as error:
        return {"passed": not is_right, "application": name, "found": str(error)}
    strikes = sum(result.struck for result in results)
    return {"passed": is_right, "application": name, "scenarios": len(results), "strikes": strikes}
