"""Decides, by the current ACLs, whether a client may carry out an operation."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from semel.security.acl_table import AclTable, Verdict
from semel.security.rights import Rights
from semel.wire.codes import AclOperation, AclResourceType

# The number of decisions that are cached; the cache is emptied when it is full. While the ACLs do not change, a
# repeated decision is one look-up.
_REMEMBERED_MAX: Final = 10_000
# The longest name whose decisions are cached. Clients choose the names of groups and transactional ids, which may have
# 32 KB: ten thousand of them would be 320 MB.
_REMEMBERED_CHARACTERS_MAX: Final = 500


class Authorizer:
    """The authorizer of one broker (Kafka's ``Authorizer``). ``super_users`` may do everything."""

    def __init__(self, *, super_users: Collection[str] = (), allow_everyone_if_no_acl_found: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._without_rule = allow_everyone_if_no_acl_found
        self._table = AclTable()
        self._remembered: dict[tuple[str, str, AclOperation, AclResourceType, str], bool] = {}
        self._some_remembered: dict[tuple[str, str, AclOperation, AclResourceType], bool] = {}

    def load(self, table: AclTable) -> None:
        """Decide by these ACLs from now on, and empty the cache of decisions."""
        self._table = table
        self._remembered = {}
        self._some_remembered = {}

    def rights(
        self,
        principal: str,
        host: str,
        refused: Callable[[AclOperation, AclResourceType, str], None] | None = None,
    ) -> Rights:
        """Return the rights of one client.

        ``refused`` is called with each operation that it is refused (``Rights``).
        """
        return Rights(self, principal, host, refused)

    def allows(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> bool:
        key = (principal, host, operation, resource_type, name)
        known = self._remembered.get(key)
        return self._decide(key) if known is None else known

    def allows_some(self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType) -> bool:
        """Whether the operation may be allowed on some resource of this type (``AclTable.allows_some``)."""
        key = (principal, host, operation, resource_type)
        known = self._some_remembered.get(key)
        if known is None:
            known = (
                principal in self._super_users
                or self._without_rule_allowed(principal, host, operation, resource_type)
                or self._table.allows_some(principal, host, operation, resource_type)
            )
            if len(self._some_remembered) >= _REMEMBERED_MAX:
                self._some_remembered.clear()
            self._some_remembered[key] = known
        return known

    def _decide(self, key: tuple[str, str, AclOperation, AclResourceType, str]) -> bool:
        principal = key[0]
        if principal in self._super_users:
            allowed = True
        else:
            verdict = self._table.verdict(*key)
            allowed = self._without_rule if verdict is Verdict.NO_RULE else verdict is Verdict.ALLOWED
        if len(key[-1]) <= _REMEMBERED_CHARACTERS_MAX:
            if len(self._remembered) >= _REMEMBERED_MAX:
                self._remembered.clear()
            self._remembered[key] = allowed
        return allowed

    def _without_rule_allowed(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Whether a resource without any ACL is allowed. Like Kafka, this decides for the name ``hardcode``."""
        return self._without_rule and self.allows(principal, host, operation, resource_type, "hardcode")
