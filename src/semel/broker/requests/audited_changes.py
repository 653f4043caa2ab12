"""Writes changes into the audit log: one line for each resource that was changed according to the response.

All changes of administrators are written: topics, records, settings, ACLs, users, quotas, groups, leaders, markers.
What producers and consumers do with their own transactions and groups is not written, with one exception: an
OffsetCommit of a client that is not a member, because this is how offsets are reset.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from semel.broker.network.request import Request
from semel.broker.security.audit import Audit
from semel.metadata.alter_configs import ResourceType
from semel.security.acls import AclBinding
from semel.wire.apis import ApiKey

Handle: TypeAlias = Callable[[Request, Any], object]


class Changed(NamedTuple):
    operation: str
    resource_type: str
    name: str


Changes: TypeAlias = Callable[[Any, Any], Iterator[Changed]]
"""Returns the changes of a request, from the request and its response."""


def audited(audit: Audit, key: ApiKey, handle: Handle) -> Handle:
    """Return a handler whose changes are written into the audit log with the response.

    Returns ``handle`` itself if the API changes nothing that is audited.
    """
    changes = CHANGES.get(key)
    if changes is None:
        return handle

    def serve(request: Request, message: Any) -> object:
        amend = request.amend

        def audited_response(response: Any) -> Generator[None, None, object]:
            if not getattr(message, "validate_only", False):
                for operation, resource_type, name in changes(message, response):
                    audit.changed(
                        request.principal, request.peer_host, request.api.name, operation, resource_type, name
                    )
            return response if amend is None else (yield from amend(response))

        request.amend = audited_response
        return handle(request, message)

    return serve


def _each(results: str, name: str, operation: str, resource_type: str) -> Changes:
    """Return a function that yields one change for each result without an error."""

    def changes(message: Any, response: Any) -> Iterator[Changed]:
        for result in getattr(response, results):
            if not result.error_code:
                yield Changed(operation, resource_type, getattr(result, name) or "")

    return changes


def _partitions(
    topics: str, partitions: str, name: str, index: str, operation: str, resource_type: str = "TOPIC"
) -> Changes:
    """Return a function that yields one change for each partition without an error."""

    def changes(message: Any, response: Any) -> Iterator[Changed]:
        for topic in getattr(response, topics):
            for partition in getattr(topic, partitions):
                if not partition.error_code:
                    yield Changed(operation, resource_type, f"{getattr(topic, name)}-{getattr(partition, index)}")

    return changes


def _configs(message: Any, response: Any) -> Iterator[Changed]:
    for result in response.responses:
        if not result.error_code:
            yield Changed("ALTER_CONFIGS", ResourceType(result.resource_type).name, result.resource_name)


def _created_acls(message: Any, response: Any) -> Iterator[Changed]:
    for creation, result in zip(message.creations, response.results, strict=False):
        if not result.error_code:
            yield Changed("CREATE", "ACL", _rule(creation, creation.resource_pattern_type))


def _deleted_acls(message: Any, response: Any) -> Iterator[Changed]:
    for result in response.filter_results:
        for acl in result.matching_acls:
            if not acl.error_code:
                yield Changed("DELETE", "ACL", _rule(acl, acl.pattern_type))


def _rule(acl: Any, pattern_type: int) -> str:
    rule = (acl.principal, acl.host, acl.operation, acl.permission_type)
    return str(AclBinding.from_wire(acl.resource_type, acl.resource_name, pattern_type, *rule))


def _quotas(message: Any, response: Any) -> Iterator[Changed]:
    for entry in response.entries:
        if not entry.error_code:
            parts = (f"{part.entity_type} {part.entity_name or 'default'}" for part in entry.entity)
            yield Changed("ALTER", "QUOTA", ", ".join(parts))


def _deleted_offsets(message: Any, response: Any) -> Iterator[Changed]:
    if any(not partition.error_code for topic in response.topics for partition in topic.partitions):
        yield Changed("DELETE", "GROUP", message.group_id)


def _reset_offsets(message: Any, response: Any) -> Iterator[Changed]:
    if message.member_id:
        return
    if any(not partition.error_code for topic in response.topics for partition in topic.partitions):
        yield Changed("ALTER", "GROUP", message.group_id)


def _markers(message: Any, response: Any) -> Iterator[Changed]:
    for marker, result in zip(message.markers, response.markers, strict=False):
        for topic in result.topics:
            for partition in topic.partitions:
                if not partition.error_code:
                    outcome = "COMMIT" if marker.transaction_result else "ABORT"
                    producer = f"producer {marker.producer_id} on {topic.name}-{partition.partition_index}"
                    yield Changed(outcome, "TRANSACTION", producer)


CHANGES: Final[dict[ApiKey, Changes]] = {
    ApiKey.OFFSET_COMMIT: _reset_offsets,
    ApiKey.CREATE_TOPICS: _each("topics", "name", "CREATE", "TOPIC"),
    ApiKey.DELETE_TOPICS: _each("responses", "name", "DELETE", "TOPIC"),
    ApiKey.DELETE_RECORDS: _partitions("topics", "partitions", "name", "partition_index", "DELETE", "RECORDS"),
    ApiKey.WRITE_TXN_MARKERS: _markers,
    ApiKey.CREATE_ACLS: _created_acls,
    ApiKey.DELETE_ACLS: _deleted_acls,
    ApiKey.ALTER_CONFIGS: _configs,
    ApiKey.CREATE_PARTITIONS: _each("results", "name", "ALTER", "TOPIC"),
    ApiKey.DELETE_GROUPS: _each("results", "group_id", "DELETE", "GROUP"),
    ApiKey.ELECT_LEADERS: _partitions(
        "replica_election_results", "partition_result", "topic", "partition_id", "ALTER", "LEADER"
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _partitions(
        "responses", "partitions", "name", "partition_index", "ALTER", "REPLICAS"
    ),
    ApiKey.OFFSET_DELETE: _deleted_offsets,
    ApiKey.ALTER_CLIENT_QUOTAS: _quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _each("results", "user", "ALTER", "USER"),
}
