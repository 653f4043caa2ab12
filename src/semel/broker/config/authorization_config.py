"""The settings of authorization: whether ACLs are enforced, super users, and resources without an ACL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from semel.settings import SettingType, declare

BOOLEAN, STRING = SettingType.BOOLEAN, SettingType.STRING

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@dataclass(frozen=True, slots=True)
class _KnownAuthorizer:
    def allows(self, name: str) -> bool:
        return name in ("", STANDARD_AUTHORIZER)

    def __str__(self) -> str:
        return f"empty, or {STANDARD_AUTHORIZER}: Semel loads no classes named in a configuration"


@dataclass(frozen=True, slots=True)
class _Principals:
    def allows(self, text: str) -> bool:
        return all(kind and name for kind, _, name in (part.partition(":") for part in principals(text)))

    def __str__(self) -> str:
        return "principals with ; between them, such as User:alice;User:bob"


def principals(text: str) -> tuple[str, ...]:
    """Return the principals of a list with semicolons, as in Kafka, since a distinguished name contains commas."""
    return tuple(part.strip() for part in text.split(";") if part.strip())


@dataclass(frozen=True)
class AuthorizationConfig:
    """A part of ``BrokerConfig``."""

    authorizer_class_name: str = declare(
        "authorizer.class.name",
        STRING,
        "",
        "Whether requests are decided by ACLs: by the name of Kafka's own authorizer. Without it every client may do "
        "everything.",
        rule=_KnownAuthorizer(),
    )
    super_users: tuple[str, ...] = declare(
        "super.users",
        STRING,
        "",
        "Principals that may do everything, whatever the ACLs say, with ; between them: User:alice;User:bob.",
        rule=_Principals(),
        read=principals,
    )
    allow_everyone_if_no_acl_found: bool = declare(
        "allow.everyone.if.no.acl.found",
        BOOLEAN,
        False,
        "Whether every client may do everything with a resource that no ACL is about.",
    )
