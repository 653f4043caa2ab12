"""Every API and version that is advertised is served, and docs/compatibility.md says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from semel.broker.requests.compatibility import compatibility
from semel.broker.requests.routes import SERVED, handler_of, served_apis
from semel.wire.apis import APIS, ApiKey
from semel.wire.messages.api_versions import ApiVersionsRequest
from semel.wire.messages.produce import ProduceRequest
from tests.broker.raw_client import RawClient

ROOT = Path(__file__).parents[3]


def test_the_page_of_compatibility_is_up_to_date() -> None:
    page = (ROOT / "docs" / "compatibility.md").read_text()

    assert page == compatibility(), (
        "write it anew: python -m semel.broker.requests.compatibility > docs/compatibility.md"
    )


@pytest.mark.parametrize("api", served_apis(), ids=lambda api: api.name)
def test_every_version_of_an_api_answers_a_request_that_asks_for_nothing(client: RawClient, api: Any) -> None:
    for version in range(api.min_version, api.max_version + 1):
        message = api.request_class()
        if api.key is ApiKey.PRODUCE:
            message = ProduceRequest(acks=1)
        elif api.key is ApiKey.API_VERSIONS:
            message = ApiVersionsRequest("raw", "1")
        response = client.call(api.key, version, message)
        assert type(response) is api.response_class


def test_the_versions_advertised_are_those_that_are_served(client: RawClient) -> None:
    for entry in client.call(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("raw", "1")).api_keys:
        api = APIS[entry.api_key]
        assert entry.max_version == api.max_version
        assert entry.min_version == (0 if api.key is ApiKey.PRODUCE else api.min_version)


def test_every_served_api_has_a_handler_of_its_own_name() -> None:
    for key in SERVED:
        assert handler_of(key).__name__ == key.name.lower()
