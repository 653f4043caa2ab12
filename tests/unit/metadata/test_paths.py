"""Values of the metadata store that this version did not write."""

from __future__ import annotations

import pytest

from semel.errors import DecodeError
from semel.metadata import paths

DEEP = b'{"rules":' * 5000
"""More than Python's reader of JSON goes down."""


def test_json_that_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(DecodeError, match="/topics/t holds"):
        paths.decode_topic("t", DEEP)
