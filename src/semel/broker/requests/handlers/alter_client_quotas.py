"""AlterClientQuotas (versions 0-1): sets quotas. The rules are in ``semel.metadata.security.quota_changes``."""

from __future__ import annotations

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.security_change import change_security
from semel.errors import ErrorCode
from semel.metadata.security.quota_changes import QuotaEntry, QuotaResult
from semel.metadata.security.quota_changes import alter_client_quotas as decide
from semel.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    EntryDataResponse,
)


async def alter_client_quotas(
    node: Node, request: Request, message: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    wanted = [_entry(entry) for entry in message.entries]
    results = await change_security(
        node,
        lambda image: decide(image, wanted),
        refused=lambda refusal: [QuotaResult(entry.parts, refusal) for entry in wanted],
        validate_only=message.validate_only,
    )
    return AlterClientQuotasResponse(entries=[_result(result) for result in results])


def _entry(entry: EntryData) -> QuotaEntry:
    return QuotaEntry(
        tuple((part.entity_type, part.entity_name) for part in entry.entity),
        tuple((op.key, None if op.remove else op.value) for op in entry.ops),
    )


def _result(result: QuotaResult) -> EntryDataResponse:
    entity = [EntityData(kind, name) for kind, name in result.parts]
    if result.refusal is None:
        return EntryDataResponse(ErrorCode.NONE, None, entity)
    return EntryDataResponse(result.refusal.code, result.refusal.message, entity)
