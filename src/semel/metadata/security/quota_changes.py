"""Pure decisions about client quotas: AlterClientQuotas, and the answer to DescribeClientQuotas.

There is one result for each entry, in the order of the request; an entry is carried out as a whole or not at all, and a
wrong one does not affect the others. Error codes and messages are Apache Kafka's. An entity that is in a request twice
is refused both times, where Kafka accepts the first; an ``ip`` must be an address, where Kafka also accepts a host name
that it can resolve.
"""

from __future__ import annotations

import ipaddress
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from semel.errors import ErrorCode, KafkaError
from semel.metadata.controller import MetadataDecision, Refusal
from semel.metadata.image import ClusterImage
from semel.metadata.security.image import Quotas, QuotasAltered, security_of
from semel.security.quota_entities import QuotaEntity, Quoted
from semel.security.quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)

Parts: TypeAlias = tuple[tuple[str, str | None], ...]
"""The parts of an entity, as a request names it: pairs of a kind and a name, or None for the default."""

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
_KINDS: Final = (USER, CLIENT_ID, IP)

# The greatest value of each quota that must be a whole number; None for a quota that may have a fraction.
_OF_CLIENTS: Final = {
    PRODUCER_BYTE_RATE: 2**63 - 1,
    CONSUMER_BYTE_RATE: 2**63 - 1,
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
_OF_ADDRESSES: Final = {CONNECTION_CREATION_RATE: 2**31 - 1}
_TYPES: Final = {2**63 - 1: "a LONG", 2**31 - 1: "an INT"}
_FRACTION_MAX: Final = 1e-6


@dataclass(frozen=True, slots=True)
class QuotaEntry:
    """The quotas to set for one entity; None removes a quota. If a name is there twice, the entry is refused."""

    parts: Parts
    quotas: tuple[tuple[str, float | None], ...]


@dataclass(frozen=True, slots=True)
class QuotaResult:
    parts: Parts
    refusal: Refusal | None = None


class Match(IntEnum):
    """Kafka's numbers for how a filter matches the names of a kind."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


@dataclass(frozen=True, slots=True)
class QuotaFilterPart:
    kind: str
    match: int
    name: str | None = None


def alter_client_quotas(image: ClusterImage, entries: Sequence[QuotaEntry]) -> MetadataDecision[QuotaResult]:
    known = security_of(image).quotas
    asked = Counter(frozenset(entry.parts) for entry in entries)
    changes: list[QuotasAltered] = []
    results = []
    for entry in entries:
        refusal = None
        try:
            if asked[frozenset(entry.parts)] > 1:
                raise _invalid(f"Ignoring duplicate entity {_shown(entry.parts)}")
            entity = _entity(entry.parts)
            before = known.get(entity, {})
            after = _altered(entity, before, entry)
        except KafkaError as error:
            refusal = Refusal(error.code, error.message)
        else:
            if after != before:
                changes.append(QuotasAltered(entity, after))
        results.append(QuotaResult(entry.parts, refusal))
    return MetadataDecision(tuple(changes), tuple(results))


def describe_client_quotas(
    image: ClusterImage, wanted: Sequence[QuotaFilterPart], *, strict: bool
) -> list[tuple[QuotaEntity, Quotas]]:
    """Return the entities that have all these parts, and with ``strict`` no others. Raises KafkaError."""
    by_kind: dict[str, QuotaFilterPart] = {}
    for part in wanted:
        _check_filter_part(part, by_kind)
        by_kind[part.kind] = part
    if IP in by_kind and len(by_kind) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component."
        )
    found = [
        (entity, quotas) for entity, quotas in security_of(image).quotas.items() if _matches(entity, by_kind, strict)
    ]
    return sorted(found, key=lambda one: [(kind, str(name)) for kind, name in one[0].parts()])


def parts_of(entity: QuotaEntity) -> Parts:
    return tuple((kind, name if isinstance(name, str) else None) for kind, name in entity.parts())


def _entity(parts: Parts) -> QuotaEntity:
    names = dict(parts)
    if not parts:
        raise _invalid("Invalid empty client quota entity")
    if len(names) < len(parts):
        twice = next(kind for kind, times in Counter(kind for kind, _ in parts).items() if times > 1)
        raise _invalid(f"Invalid client quota entity, duplicate entity entry {twice}")
    for kind, name in parts:
        if kind not in _KINDS:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    if IP in names:
        if len(names) > 1:
            raise _invalid("Invalid quota entity combination, IP entity should not be combined with User or ClientId")
        if names[IP] is not None and not _is_address(names[IP]):
            raise _invalid(f"{names[IP]} is not a valid IP or resolvable host.")
    quoted = {kind: Quoted.DEFAULT if name is None else name for kind, name in parts}
    return QuotaEntity(quoted.get(USER), quoted.get(CLIENT_ID), quoted.get(IP))


def _altered(entity: QuotaEntity, before: Quotas, entry: QuotaEntry) -> Quotas:
    names = Counter(name for name, _ in entry.quotas)
    after = dict(before)
    for name, value in entry.quotas:
        if names[name] > 1:
            raise _invalid(f"Duplicate quota key {name} not updating quota for this entity {_shown(entry.parts)}")
        if value is None:
            after.pop(name, None)
        else:
            _check_value(entity, name, value)
            after[name] = value
    return after


def _check_value(entity: QuotaEntity, name: str, value: float) -> None:
    allowed: Mapping[str, int | None] = _OF_CLIENTS if entity.ip is None else _OF_ADDRESSES
    if name not in allowed:
        raise _invalid(f"Invalid configuration key {name}")
    if not value > 0 or math.isinf(value):  # This also refuses NaN.
        raise _invalid(f"Quota {name} must be greater than 0")
    most = allowed[name]
    if most is None:
        return
    if value > most:
        raise _invalid(f"Proposed value for {name} is too large for {_TYPES[most]}.")
    if value % 1.0 > _FRACTION_MAX:
        raise _invalid(f"{name} cannot be a fractional value.")


def _check_filter_part(part: QuotaFilterPart, before: Mapping[str, QuotaFilterPart]) -> None:
    if not part.kind:
        raise _invalid("Invalid empty entity type.")
    if part.kind in before:
        raise _invalid(f"Entity type {part.kind} cannot appear more than once in the filter.")
    if part.kind not in _KINDS:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {part.kind}")
    if part.match not in list(Match) or (part.match == Match.EXACT) != (part.name is not None):
        raise _invalid(f"Match type {part.match} of {part.kind} with the name {part.name!r}")


def _matches(entity: QuotaEntity, wanted: Mapping[str, QuotaFilterPart], strict: bool) -> bool:
    names = dict(parts_of(entity))
    if strict and len(names) != len(wanted):
        return False
    return all(
        part.kind in names and (part.match == Match.ANY or names[part.kind] == part.name) for part in wanted.values()
    )


def _is_address(text: str | None) -> bool:
    try:
        ipaddress.ip_address(text or "")
    except ValueError:
        return False
    return True


def _shown(parts: Parts) -> str:
    return ", ".join(f"{kind} {'<default>' if name is None else name}" for kind, name in parts)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
