"""The longest legal strings are answered or refused, in every API and version; nothing built from them is too long."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import pytest

from semel.broker.requests.routes import served_apis
from semel.errors import ErrorCode
from semel.testing import Broker
from semel.wire.apis import APIS, Api, ApiKey
from semel.wire.framing import encode_request
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from semel.wire.schema import STRING_SIZE_BYTES_MAX
from tests.broker.longest_requests import requests
from tests.broker.raw_client import RawClient
from tests.properties.wire.message_strategies import legal_in
from tools.patience import wait_until

NUMBERS = itertools.count()


def long_text(character: str) -> str:
    """As many bytes as a string may have, and never the same."""
    number = f"{next(NUMBERS):06d}"
    return number + character * ((STRING_SIZE_BYTES_MAX - 6) // len(character.encode()))


@pytest.mark.parametrize("api", served_apis(), ids=lambda api: api.name)
def test_the_longest_strings_are_answered_or_refused(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    with Broker(group_initial_rebalance_delay_ms=0, auto_create_topics_enable=False) as broker:
        with RawClient(broker.port) as canary:
            canary.create_topic("known")
            have_coordinators(canary)
        for version in range(api.min_version, api.max_version + 1):
            # A line break is written as two characters in an error message, and others as four.
            for character in "x", "\n", "é", "\x01":
                for message in requests(api.request_class, "known", lambda: long_text(character)):  # noqa: B023
                    _ask(broker, api, version, legal_in(message, version), client_id=long_text(character))
        assert broker._broker is not None
        assert broker._broker.metrics.failed.value == 0
    assert [record.getMessage() for record in caplog.records if record.exc_info or record.exc_text] == []
    assert all(len(record.getMessage()) < 10_000 and "\n" not in record.getMessage() for record in caplog.records)


def have_coordinators(client: RawClient) -> None:
    for key_type in (0, 1):
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["any"])
        wait_until(lambda: client.call(ApiKey.FIND_COORDINATOR, 4, request).coordinators[0].error_code == 0)  # noqa: B023


def _ask(broker: Broker, api: Api, version: int, message: object, *, client_id: str) -> None:
    with RawClient(broker.port) as client:
        client.socket.sendall(encode_request(1, api, version, message, client_id=client_id))
        with contextlib.suppress(ConnectionError):  # Refused as a whole, as what cannot be decoded is.
            client.receive(ApiKey(api.key), version, 1)


@pytest.mark.parametrize("version", range(10))
def test_the_longest_client_id_becomes_a_member(client: RawClient, name: str, version: int) -> None:
    request = JoinGroupRequest(
        group_id=name,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", b"")],
    )
    have_coordinators(client)
    joined = _join(client, version, request)
    if version >= 4:
        assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
        request.member_id = joined.member_id
        joined = _join(client, version, request)

    assert joined.error_code == 0
    assert joined.member_id.startswith("cccc")
    assert len(joined.member_id) < 300


def _join(client: RawClient, version: int, request: JoinGroupRequest) -> Any:
    api = APIS[ApiKey.JOIN_GROUP]
    client.socket.sendall(encode_request(1, api, version, request, client_id="c" * STRING_SIZE_BYTES_MAX))
    return client.receive(ApiKey.JOIN_GROUP, version, 1)
