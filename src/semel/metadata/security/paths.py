"""The paths and values of ACLs, users and quotas in the metadata store: one value for each pattern, user and entity.

    /acls/<type>:<pattern>:<name>      rows of principal, host, operation, permission
    /users/<name>                      by mechanism: salt, keys and iterations
    /users/:secret                     a random value, from which credentials of unknown users are computed
    /quotas/<kind>=<name>,...          by Kafka's name of the quota; a kind without ``=`` is the default

Names are percent-encoded: the ids of groups and transactions may have any character.
"""

from __future__ import annotations

import base64
import json
from itertools import starmap
from typing import Any, Final
from urllib.parse import unquote

from semel.errors import DecodeError
from semel.metadata import paths
from semel.metadata.paths import encode_json, quoted
from semel.metadata.security.image import AclsAltered, QuotasAltered, SecurityChange, UserAltered, UserSecretMade
from semel.security.acls import AclRule, ResourcePattern
from semel.security.quota_entities import QuotaEntity, Quoted
from semel.security.sasl.scram_credentials import ScramCredential
from semel.wire.codes import AclOperation, AclPatternType, AclPermission, AclResourceType, ScramMechanism

# No user has this path: a colon in a name is percent-encoded.
_SECRET: Final = ":secret"


def security_path(change: SecurityChange) -> str:
    match change:
        case AclsAltered((resource_type, pattern_type, name)):
            return f"{paths.ACLS}/{resource_type.name}:{pattern_type.name}:{quoted(name)}"
        case UserAltered(name):
            return f"{paths.USERS}/{quoted(name)}"
        case UserSecretMade():
            return f"{paths.USERS}/{_SECRET}"
        case QuotasAltered(entity):
            return f"{paths.QUOTAS}/{','.join(starmap(_entity_part, entity.parts()))}"


def encode_security(change: SecurityChange) -> bytes | None:
    """Return the value at the path of the change; ``None`` if there is no value any more."""
    match change:
        case AclsAltered(_, rules):
            rows = sorted([rule.principal, rule.host, rule.operation.name, rule.permission.name] for rule in rules)
            return encode_json({"rules": rows}) if rows else None
        case UserAltered(_, credentials):
            by_mechanism = {mechanism.name: _row(credential) for mechanism, credential in credentials.items()}
            return encode_json(by_mechanism) if by_mechanism else None
        case UserSecretMade(secret):
            return None if secret is None else encode_json({"secret": base64.b64encode(secret).decode()})
        case QuotasAltered(_, quotas):
            return encode_json(dict(quotas)) if quotas else None


def decode_security(path: str, value: bytes | None) -> SecurityChange:
    """Return what the value at a path below ``/acls``, ``/users`` or ``/quotas`` means; ``None``: there is no value.

    Raises DecodeError, which does not show the value, since that may be secret.
    """
    folder, _, name = path.rpartition("/")
    try:
        document: dict[str, Any] = {} if value is None else json.loads(value)
        match folder:
            case paths.ACLS:
                return AclsAltered(_pattern(name), frozenset(starmap(_rule, document.get("rules", ()))))
            case paths.USERS if name == _SECRET:
                kept = None if value is None else base64.b64decode(document["secret"], validate=True)
                return UserSecretMade(kept)
            case paths.USERS:
                return UserAltered(unquote(name), dict(starmap(_credential, document.items())))
            case paths.QUOTAS:
                return QuotasAltered(_entity(name), {str(key): float(limit) for key, limit in document.items()})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DecodeError(f"{path} holds what this version cannot read: {type(error).__name__}") from None
    raise AssertionError(f"{path} says nothing of security")


def _pattern(name: str) -> ResourcePattern:
    resource_type, pattern_type, quoted = name.split(":")
    return ResourcePattern(AclResourceType[resource_type], AclPatternType[pattern_type], unquote(quoted))


def _rule(principal: str, host: str, operation: str, permission: str) -> AclRule:
    if not (isinstance(principal, str) and isinstance(host, str)):
        raise TypeError("a principal or a host that is no text")
    return AclRule(principal, host, AclOperation[operation], AclPermission[permission])


def _credential(mechanism: str, row: list[Any]) -> tuple[ScramMechanism, ScramCredential]:
    *keys, iterations = row
    salt, stored_key, server_key = (base64.b64decode(key, validate=True) for key in keys)
    return ScramMechanism[mechanism], ScramCredential(salt, stored_key, server_key, int(iterations))


def _entity(name: str) -> QuotaEntity:
    parts: dict[str, str | Quoted] = {}
    for part in name.split(","):
        kind, has_name, quoted = part.partition("=")
        parts[kind.replace("-", "_")] = unquote(quoted) if has_name else Quoted.DEFAULT
    return QuotaEntity(**parts)


def _entity_part(kind: str, name: str | Quoted) -> str:
    return f"{kind}={quoted(name)}" if isinstance(name, str) else kind


def _row(credential: ScramCredential) -> list[str | int]:
    keys = (credential.salt, credential.stored_key, credential.server_key)
    return [*(base64.b64encode(key).decode() for key in keys), credential.iterations]
