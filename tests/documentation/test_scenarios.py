"""Every scenario that a test names is described in docs/scenarios.md."""

from __future__ import annotations

import re

from tests.documentation.blocks import ROOT

# "Scenario 21", "scenarios 10 to 13", "Scenarios 47-50", "scenarios 51, 52 and 55"
_NAMED = re.compile(r"[Ss]cenarios? (\d+(?:(?:, | and |, and | to | or |-)\d+)*)")
_DESCRIBED = re.compile(r"^(\d+)\. ", re.MULTILINE)


def test_every_scenario_that_a_test_names_is_described() -> None:
    described = _described()
    unknown = {
        f"{path.relative_to(ROOT)}: {number}"
        for path in (ROOT / "tests").rglob("*.py")
        for names in _NAMED.findall(path.read_text())
        for number in re.findall(r"\d+", names)
        if int(number) not in described
    }
    assert unknown == set()


def test_scenarios_are_numbered_without_a_gap() -> None:
    described = _described()
    assert described == list(range(1, len(described) + 1))


def _described() -> list[int]:
    return [int(number) for number in _DESCRIBED.findall((ROOT / "docs/scenarios.md").read_text())]
