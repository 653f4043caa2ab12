"""DescribeClientQuotas (versions 0-1): the quotas of the entities that match a filter."""

from __future__ import annotations

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.errors import ErrorCode, KafkaError
from semel.metadata.security.quota_changes import QuotaFilterPart, parts_of
from semel.metadata.security.quota_changes import describe_client_quotas as matching
from semel.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)


def describe_client_quotas(
    node: Node, request: Request, message: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    wanted = [QuotaFilterPart(part.entity_type, part.match_type, part.match) for part in message.components]
    try:
        found = matching(node.image, wanted, strict=message.strict)
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    entries = [
        EntryData(
            [EntityData(kind, name) for kind, name in parts_of(entity)],
            [ValueData(key, value) for key, value in sorted(quotas.items())],
        )
        for entity, quotas in found
    ]
    return DescribeClientQuotasResponse(error_code=ErrorCode.NONE, error_message=None, entries=entries)
