"""The requests that docs/architecture.md follows through the code do go that way."""

from __future__ import annotations

import re

import pytest

from tests.documentation.blocks import ROOT
from tests.documentation.code_references import Reference, references_in
from tests.documentation.request_paths import END_TXN, FETCH, FIRST_BATCH, HEARTBEAT, recorded_calls

HEADINGS = {
    FIRST_BATCH: "The first batch of a V2 transaction",
    END_TXN: "EndTxn",
    FETCH: "A read_committed Fetch",
    HEARTBEAT: "A heartbeat of KIP-848",
}


@pytest.fixture(scope="module")
def calls() -> dict[str, list[Reference]]:
    return recorded_calls()


@pytest.mark.parametrize("request_name", HEADINGS)
def test_a_request_goes_through_the_functions_of_its_list_in_order(
    request_name: str, calls: dict[str, list[Reference]]
) -> None:
    listed = references_in(section(HEADINGS[request_name]))
    assert len(listed) > 10
    made = iter(calls[request_name])
    for number, reference in enumerate(listed, start=1):
        assert reference in made, f"{number}. {reference} is not called after {number - 1}."


def section(heading: str) -> str:
    page = (ROOT / "docs/architecture.md").read_text()
    found = re.search(rf"^### {re.escape(heading)}\n(.*?)(?=^##)", page, re.DOTALL | re.MULTILINE)
    assert found is not None, heading
    return found[1]
