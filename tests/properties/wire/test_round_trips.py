"""Every message in every version: what is encoded is decoded again, whole or in parts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semel.wire.codec import decode, encode
from tests.properties.wire.message_strategies import as_of, encode_parts, legal_in, message_classes, messages, versions


@pytest.mark.parametrize("message_class", message_classes(), ids=lambda message_class: message_class.__name__)
@settings(max_examples=20, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_version_gives_back_what_it_carries_and_defaults_for_the_rest(
    message_class: type[Any], data: st.DataObject
) -> None:
    message = data.draw(messages(message_class))
    for version in versions(message_class):
        # Fields of other versions are still set here: they must leave no trace.
        encoded = encode(legal_in(message, version), version)
        expected = as_of(message, version)
        assert decode(message_class, encoded, version) == expected
        assert b"".join(encode_parts(expected, version)) == encoded
