"""A whole request, refused in the way its version has for that."""

from __future__ import annotations

import pytest

from semel.errors import ErrorCode
from semel.wire.apis import APIS, ApiKey
from semel.wire.messages.find_coordinator import FindCoordinatorResponse
from semel.wire.refusal import whole_refusal

CODE = ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("version", "refusal"),
    [
        (0, FindCoordinatorResponse(error_code=CODE)),
        (1, FindCoordinatorResponse(error_code=CODE, error_message="not yet")),
        (4, None),
    ],
)
def test_code_and_text_are_told_where_the_version_has_room(version: int, refusal: object) -> None:
    assert whole_refusal(APIS[ApiKey.FIND_COORDINATOR], version, CODE, "not yet") == refusal


def test_without_a_text_there_is_the_code_alone() -> None:
    assert whole_refusal(APIS[ApiKey.FIND_COORDINATOR], 1, CODE) == FindCoordinatorResponse(error_code=CODE)
