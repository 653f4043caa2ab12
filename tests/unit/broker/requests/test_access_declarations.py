"""What APIs declare to ask for: all of them something, and nothing that does not exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.broker.requests.access import rights_reference
from semel.broker.requests.access.declarations import Access
from semel.broker.requests.access.table import ACCESS
from semel.broker.requests.large_requests import SPLIT
from semel.broker.requests.routes import ASKED_BY_BROKERS, SERVED, access_of
from semel.wire.apis import APIS, ApiKey
from semel.wire.schema import fields_of


@pytest.mark.parametrize("key", sorted({*SERVED, *ASKED_BY_BROKERS}), ids=lambda key: key.name)
def test_every_api_that_is_served_declares_what_it_asks_for(key: ApiKey) -> None:
    assert access_of(key) is not None


def test_only_these_apis_ask_for_nothing() -> None:
    free = {key for key, access in ACCESS.items() if access == Access()}
    assert free == {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}


@pytest.mark.parametrize("key", ACCESS, ids=lambda key: key.name)
def test_lists_are_fields_of_the_messages_in_every_version(key: ApiKey) -> None:
    api, access = APIS[key], ACCESS[key]
    for version in range(api.min_version, api.max_version + 1):
        items = access.in_version(version).items
        if items is not None:
            asked = {field.name for field in fields_of(api.request_class) if field.exists_in(version)}
            answered = {field.name for field in fields_of(api.response_class) if field.exists_in(version)}
            assert (items.asked in asked, items.answered in answered) == (True, True), version


@pytest.mark.parametrize("key", SPLIT.keys() & ACCESS.keys(), ids=lambda key: key.name)
def test_requests_are_cut_and_checked_by_the_same_lists(key: ApiKey) -> None:
    """So that the refusals of a piece are joined with its results."""
    api = APIS[key]
    for version in range(api.min_version, api.max_version + 1):
        items = ACCESS[key].in_version(version).items
        if items is not None:
            asked, answered, _ = SPLIT[key].lists_in(version)
            assert (items.asked, items.answered) == (asked[0], answered[0]), version


def test_the_table_in_the_documentation_is_what_the_declarations_say() -> None:
    page = Path(__file__).parents[4] / "docs" / "security-rights.md"
    assert page.read_text() == rights_reference.render(), "run python -m semel.broker.requests.access.rights_reference"
