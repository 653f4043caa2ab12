"""Two libraries that share no code with ours write the same bytes, for every message and version that they know."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semel.wire.apis import APIS
from semel.wire.codec import encode
from tests.properties.wire.kafka_python_oracle import encode_with_kafka_python
from tests.properties.wire.kio_oracle import encode_with_kio
from tests.properties.wire.message_strategies import (
    as_kafka_knows,
    as_of,
    message_classes,
    messages,
    versions,
    with_one_of_each,
)

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:kafka.*", "ignore:open_text is deprecated")

every_message = pytest.mark.parametrize(
    "message_class", message_classes(), ids=lambda message_class: message_class.__name__
)
few_examples = settings(max_examples=12, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


@every_message
@few_examples
@given(data=st.data())
def test_kio_writes_the_same_bytes(message_class: type[Any], data: st.DataObject) -> None:
    message = as_kafka_knows(data.draw(messages(message_class)))
    for version in versions(message_class):
        expected = as_of(message, version)
        assert encode(expected, version) == encode_with_kio(expected, version), f"version {version}"


@every_message
def test_kio_has_the_same_defaults(message_class: type[Any]) -> None:
    for version in versions(message_class):
        message = with_one_of_each(message_class)
        assert encode(message, version) == encode_with_kio(message, version, with_its_defaults=True), version


@every_message
@few_examples
@given(data=st.data())
def test_kafka_python_writes_the_same_bytes(message_class: type[Any], data: st.DataObject) -> None:
    message = as_kafka_knows(data.draw(messages(message_class)))
    for version in versions(message_class):
        expected = as_of(message, version)
        foreign = encode_with_kafka_python(expected, version)
        if foreign is not None:
            assert encode(expected, version) == foreign, f"version {version}"


def test_kafka_python_lacks_only_the_newer_group_protocol() -> None:
    unknown = {
        api.name
        for api in APIS.values()
        for version in range(api.min_version, api.max_version + 1)
        if encode_with_kafka_python(api.request_class(), version) is None
    }
    assert unknown == {"ConsumerGroupHeartbeat", "ConsumerGroupDescribe"}
