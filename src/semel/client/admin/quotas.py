"""Quotas: how much users, client ids and addresses may use of the brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from semel.client.admin.admin_requests import AdminRequests
from semel.client.admin.results import Results
from semel.client.machine.admin.ask import AnyBroker, Ask, Controller, outcome
from semel.security.quota_entities import QuotaEntity, Quoted
from semel.wire.apis import ApiKey
from semel.wire.messages import alter_client_quotas as alter
from semel.wire.messages import describe_client_quotas as describe


class Quotas:
    """``admin.quotas``: describe and change quotas, by Kafka's names, such as ``producer_byte_rate``."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def describe(
        self, matching: QuotaEntity | None = None, *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas of the entities that match; without a filter, all. ``Quoted.ANY`` matches every name.

        ``strict`` leaves out entities that have more parts than the filter.

        quotas = await admin.quotas.describe(QuotaEntity(user=Quoted.ANY))
        """
        return await self._requests.one(_describe(strict), matching or QuotaEntity())

    async def alter(
        self, quotas: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> Results[QuotaEntity, None]:
        """Set quotas; those that are not named stay as they are, and ``None`` removes one.

        (await admin.quotas.alter({QuotaEntity(user="alice"): {"producer_byte_rate": 1_000_000}})).all()
        """
        for entity in quotas:
            if Quoted.ANY in (entity.user, entity.client_id, entity.ip):
                raise ValueError(f"{entity}: only a filter can be about any; a quota has a name or is the default")
        return await self._requests.many(_alter(quotas, validate_only), quotas)


_KINDS: Final = {"user": "user", "client-id": "client_id", "ip": "ip"}

_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2


def _component(kind: str, name: str | Quoted) -> describe.ComponentData:
    match name:
        case Quoted.DEFAULT:
            return describe.ComponentData(kind, _DEFAULT, None)
        case Quoted.ANY:
            return describe.ComponentData(kind, _ANY, None)
        case str():
            return describe.ComponentData(kind, _EXACT, name)


def _entity(parts: list[describe.EntityData] | list[alter.EntityData]) -> QuotaEntity:
    names = {_KINDS[part.entity_type]: part.entity_name for part in parts if part.entity_type in _KINDS}
    return QuotaEntity(**{kind: Quoted.DEFAULT if name is None else name for kind, name in names.items()})


def _quotas(entries: list[describe.EntryData] | None) -> dict[QuotaEntity, dict[str, float]]:
    return {_entity(entry.entity): {quota.key: quota.value for quota in entry.values} for entry in entries or ()}


def _describe(strict: bool) -> Ask[QuotaEntity, dict[QuotaEntity, dict[str, float]]]:
    return Ask(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        target=lambda entity: AnyBroker(),
        build=lambda entities, version: describe.DescribeClientQuotasRequest(
            [_component(kind, name) for kind, name in entities[0].parts()], strict
        ),
        read=lambda response, entities, version: [
            (entities[0], outcome(_quotas(response.entries), response.error_code, response.error_message))
        ],
        name=lambda entity: f"the quotas of {entity}",
        is_single=True,
    )


def _alter(quotas: Mapping[QuotaEntity, Mapping[str, float | None]], validate_only: bool) -> Ask[QuotaEntity, None]:
    def entry(entity: QuotaEntity) -> alter.EntryData:
        parts = [alter.EntityData(kind, name if isinstance(name, str) else None) for kind, name in entity.parts()]
        operations = [alter.OpData(key, value or 0.0, value is None) for key, value in quotas[entity].items()]
        return alter.EntryData(parts, operations)

    return Ask(
        ApiKey.ALTER_CLIENT_QUOTAS,
        target=lambda entity: Controller(),
        build=lambda entities, version: alter.AlterClientQuotasRequest(
            [entry(entity) for entity in entities], validate_only
        ),
        read=lambda response, entities, version: [
            (_entity(entry.entity), outcome(None, entry.error_code, entry.error_message)) for entry in response.entries
        ],
        name=lambda entity: f"the quotas of {entity}",
    )
