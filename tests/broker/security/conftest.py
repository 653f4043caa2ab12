"""One broker with an authorizer for all tests of a file; each test begins without a rule."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.raw_client import RawClient
from tests.broker.secured import ALICE, ROOT, SecuredBroker, secured_broker


@pytest.fixture(scope="module")
def running() -> Iterator[SecuredBroker]:
    with secured_broker() as broker:
        yield broker


@pytest.fixture
def secured(running: SecuredBroker) -> Iterator[SecuredBroker]:
    running.forget_rules()
    yield running
    running.close_clients()


@pytest.fixture
def root(secured: SecuredBroker) -> RawClient:
    return secured.client(ROOT)


@pytest.fixture
def alice(secured: SecuredBroker) -> RawClient:
    return secured.client(ALICE)


@pytest.fixture
def topic(root: RawClient, name: str) -> str:
    return root.create_topic(name)
