"""Values of ACLs, users and quotas in the metadata store that this version did not write."""

from __future__ import annotations

import pytest

from semel.errors import DecodeError
from semel.metadata.security.paths import decode_security

DEEP = b'{"rules":' * 5000
"""More than Python's reader of JSON goes down."""


@pytest.mark.parametrize("path", ["/acls/TOPIC:LITERAL:t", "/users/alice", "/users/:secret", "/quotas/user=a"])
def test_rules_users_and_quotas_that_are_nested_too_deep_are_refused(path: str) -> None:
    with pytest.raises(DecodeError, match=f"{path} holds what this version cannot read"):
        decode_security(path, DEEP)
