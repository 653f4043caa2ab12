"""The part of the image for the cluster's security: ACLs, SCRAM credentials of users, quotas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from semel.security.acl_table import AclTable
from semel.security.acls import AclRule, ResourcePattern
from semel.security.quota_entities import QuotaEntity
from semel.security.sasl.scram_credentials import ScramCredential
from semel.wire.codes import ScramMechanism

if TYPE_CHECKING:
    from semel.metadata.image import ClusterImage

Credentials: TypeAlias = Mapping[ScramMechanism, ScramCredential]
Quotas: TypeAlias = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class AclsAltered:
    """All rules of a pattern after a change; empty if it has none any more."""

    pattern: ResourcePattern
    rules: frozenset[AclRule]


@dataclass(frozen=True, slots=True)
class UserAltered:
    """All credentials of a user after a change; empty if the user cannot log in any more."""

    name: str
    credentials: Credentials


@dataclass(frozen=True, slots=True)
class UserSecretMade:
    """The cluster's secret was created, from which credentials of unknown users are computed. It never changes.

    ``None``: the secret is lost.
    """

    secret: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class QuotasAltered:
    """All quotas of an entity after a change."""

    entity: QuotaEntity
    quotas: Quotas


SecurityChange: TypeAlias = AclsAltered | UserAltered | UserSecretMade | QuotasAltered


@dataclass(frozen=True, slots=True)
class SecurityImage:
    acls: AclTable = field(default_factory=AclTable)
    users: Mapping[str, Credentials] = field(default_factory=dict)
    quotas: Mapping[QuotaEntity, Quotas] = field(default_factory=dict)
    user_secret: bytes | None = field(default=None, repr=False)
    """The secret for unknown users: see ``semel.security.sasl.unknown_users``. None until there has been a user."""

    def apply(self, changes: Iterable[SecurityChange]) -> SecurityImage:
        acls: dict[ResourcePattern, frozenset[AclRule]] = {}
        users: dict[str, Credentials] = {}
        quotas: dict[QuotaEntity, Quotas] = {}
        user_secret = self.user_secret
        for change in changes:
            match change:
                case AclsAltered(pattern, rules):
                    acls[pattern] = rules
                case UserAltered(name, credentials):
                    users[name] = credentials
                case UserSecretMade(secret):
                    user_secret = secret
                case QuotasAltered(entity, limits):
                    quotas[entity] = limits
                case _:
                    assert_never(change)
        image = self
        if acls:
            image = replace(image, acls=self.acls.altered(acls))
        if users:
            image = replace(image, users={name: known for name, known in {**self.users, **users}.items() if known})
        if user_secret != self.user_secret:
            image = replace(image, user_secret=user_secret)
        if quotas:
            image = replace(image, quotas={of: known for of, known in {**self.quotas, **quotas}.items() if known})
        return image


_NO_SECURITY: Final = SecurityImage()


def security_of(image: ClusterImage) -> SecurityImage:
    """Return the security of the image. If there has never been any, an empty one: the same object each time."""
    return image.security or _NO_SECURITY


def security_changes_between(before: SecurityImage | None, after: SecurityImage | None) -> list[SecurityChange]:
    """Return the changes that turn ``before`` into ``after``."""
    before, after = before or _NO_SECURITY, after or _NO_SECURITY
    changes: list[SecurityChange] = []
    for pattern in dict.fromkeys(pattern for image in (before, after) for pattern, _ in image.acls.items()):
        rules = after.acls.rules(pattern)
        if rules != before.acls.rules(pattern):
            changes.append(AclsAltered(pattern, rules))
    for name in dict.fromkeys([*before.users, *after.users]):
        credentials = after.users.get(name, {})
        if credentials != before.users.get(name, {}):
            changes.append(UserAltered(name, credentials))
    if after.user_secret != before.user_secret:
        changes.append(UserSecretMade(after.user_secret))
    for entity in dict.fromkeys([*before.quotas, *after.quotas]):
        quotas = after.quotas.get(entity, {})
        if quotas != before.quotas.get(entity, {}):
            changes.append(QuotasAltered(entity, quotas))
    return changes
