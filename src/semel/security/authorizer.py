"""Whether a client may do what it asks for, by the ACLs as they are now."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from semel.security.acl_table import AclTable, Verdict
from semel.security.rights import Rights
from semel.wire.codes import AclOperation, AclResourceType

# Of the last decisions; with more the memory is emptied. A decision is one look-up while the ACLs stay as they are.
_REMEMBERED_MAX: Final = 10_000
# Names of groups and transactional ids are chosen by clients, and may have 32 KB: ten thousand of them would be 320 MB.
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
        """Decide by these ACLs from now on."""
        self._table = table
        self._remembered = {}
        self._some_remembered = {}

    def rights(
        self,
        principal: str,
        host: str,
        refused: Callable[[AclOperation, AclResourceType, str], None] | None = None,
    ) -> Rights:
        """Returns the rights of one client. ``refused`` is called with each right that the client is denied."""
        return Rights(self, principal, host, refused)

    def allows(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> bool:
        key = (principal, host, operation, resource_type, name)
        known = self._remembered.get(key)
        return self._decide(key) if known is None else known

    def allows_some(self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType) -> bool:
        """Whether there may be a resource of this type with which the operation is allowed."""
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
        """Whether resources without any ACL are allowed. Like Kafka, it asks with the name ``hardcode``."""
        return self._without_rule and self.allows(principal, host, operation, resource_type, "hardcode")
