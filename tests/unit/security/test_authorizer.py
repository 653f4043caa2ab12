"""The authorizer remembers decisions, and not without a bound."""

from __future__ import annotations

from semel.security.authorizer import Authorizer
from semel.wire.codes import AclOperation, AclResourceType
from tests.memory import held_bytes

MEGABYTE = 2**20


def test_names_of_32_kilobytes_are_not_remembered() -> None:
    """A client may ask for as many groups as it likes, and what it may not see has a decision, too."""
    authorizer = Authorizer()

    def ask() -> None:
        for number in range(1000):
            name = f"{number}{'x' * 32_000}"
            assert not authorizer.allows("User:a", "10.0.0.1", AclOperation.DESCRIBE, AclResourceType.GROUP, name)

    assert held_bytes(ask) < MEGABYTE
