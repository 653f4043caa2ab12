"""Selects the fields of a request or a response that a trace shows; ``summary_text.py`` makes a line of them.

APIs of records, transactions and groups have a summary of their own. For the others the top-level fields of the message
are shown, and the number of entries of its lists. Bytes are never shown, so that no SASL password is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final, TypeAlias
from uuid import UUID

from semel.errors import DecodeError, named
from semel.testing.tracing import group_summaries as groups
from semel.testing.tracing.summary_values import Fields, Names, each_partition, present
from semel.types import Buffer
from semel.wire.apis import Api, ApiKey
from semel.wire.control import parse_marker
from semel.wire.records import NO_PRODUCER_ID, iterate_headers


def summary_of_request(api: Api, request: Any, names: Names) -> Fields:
    return present(_REQUESTS.get(api.key, _plain)(request, names))


def summary_of_response(api: Api, response: Any, names: dict[UUID, str]) -> Fields:
    """Return the shown fields of a response. A response to Metadata adds its topics to ``names``, by topic id."""
    if api.key is ApiKey.METADATA:
        names.update((topic.topic_id, topic.name) for topic in response.topics if topic.name is not None)
    return present(_RESPONSES.get(api.key, _plain)(response, names))


def errors_in(message: Any) -> tuple[str, ...]:
    """Return the names of all error codes in a response, each once."""
    return tuple(dict.fromkeys(_errors(message)))


def _errors(message: Any) -> Iterator[str]:
    if isinstance(message, list):
        for entry in message:
            yield from _errors(entry)
    elif is_dataclass(message) and not isinstance(message, type):
        for declared in fields(message):
            value = getattr(message, declared.name)
            if declared.name.endswith("error_code") and isinstance(value, int):
                if value:
                    yield named(value).name
            else:
                yield from _errors(value)


def _plain(message: Any, names: Names) -> Fields:
    shown: Fields = {}
    for declared in fields(message):
        value = getattr(message, declared.name)
        if declared.name.endswith("error_code") or (declared.name == "throttle_time_ms" and not value):
            continue
        if isinstance(value, bool | int | str):
            shown[declared.name] = value
        elif isinstance(value, bytes | memoryview):
            shown[declared.name] = f"{len(value)} bytes"
        elif isinstance(value, list):
            shown[declared.name] = len(value)
    return shown


# -- records


def _batches(records: Buffer | None) -> Iterator[Fields]:
    """Return the shown fields of the header of each record batch."""
    if not records:
        return
    try:
        for position, header in iterate_headers(records, allow_partial_tail=True):
            numbered = header.producer_id != NO_PRODUCER_ID
            marker = parse_marker(records, position) if header.is_control else None
            yield present(
                {
                    "offset": header.base_offset,
                    "records": header.record_count,
                    "producer_id": header.producer_id if numbered else None,
                    "epoch": header.producer_epoch if numbered else None,
                    "sequence": header.base_sequence if numbered and not header.is_control else None,
                    "transactional": True if header.is_transactional else None,
                    "marker": None if marker is None else "commit" if marker.committed else "abort",
                }
            )
    except DecodeError:
        yield {"unread": len(records)}


def _produce_request(request: Any, names: Names) -> Fields:
    batches = [
        {"partition": name, **{key: value for key, value in batch.items() if key not in ("offset", "transactional")}}
        for name, entry in each_partition(request.topic_data, "partition_data", "index", names)
        for batch in _batches(entry.records)
    ]
    return {
        "transactional_id": request.transactional_id,
        "acks": None if request.acks == -1 else request.acks,
        "batches": batches,
    }


def _produce_response(response: Any, names: Names) -> Fields:
    return {
        "written": [
            present({"partition": name, "offset": entry.base_offset})
            for name, entry in each_partition(response.responses, "partition_responses", "index", names)
        ]
    }


def _fetch_request(request: Any, names: Names) -> Fields:
    return {
        "isolation": "read_committed" if request.isolation_level else "read_uncommitted",
        "max_wait_ms": request.max_wait_ms,
        "replica": request.replica_state.replica_id,
        "session": request.session_id or None,
        "from": [
            {"partition": name, "offset": entry.fetch_offset}
            for name, entry in each_partition(request.topics, "partitions", "partition", names)
        ],
    }


def _fetch_response(response: Any, names: Names) -> Fields:
    got = []
    for name, entry in each_partition(response.responses, "partitions", "partition_index", names):
        batches = list(_batches(entry.records))
        got.append(
            present(
                {
                    "partition": name,
                    "last_stable_offset": entry.last_stable_offset,
                    "high_watermark": entry.high_watermark,
                    "batches": len(batches),
                    "records": sum(batch.get("records", 0) for batch in batches if "marker" not in batch),
                    "aborted": [one.first_offset for one in entry.aborted_transactions or ()],
                }
            )
        )
    return {"session": response.session_id or None, "partitions": got}


def _list_offsets_request(request: Any, names: Names) -> Fields:
    special = {-1: "latest", -2: "earliest", -3: "max_timestamp"}
    return {
        "isolation": "read_committed" if request.isolation_level else None,
        "at": [
            {"partition": name, "time": special.get(entry.timestamp, entry.timestamp)}
            for name, entry in each_partition(request.topics, "partitions", "partition_index", names)
        ],
    }


def _list_offsets_response(response: Any, names: Names) -> Fields:
    return {
        "offsets": [
            present({"partition": name, "offset": entry.offset})
            for name, entry in each_partition(response.topics, "partitions", "partition_index", names)
        ]
    }


# -- the cluster


def _metadata_request(request: Any, names: Names) -> Fields:
    asked = None if request.topics is None else [topic.name or names.get(topic.topic_id) for topic in request.topics]
    return {"topics": "all" if asked is None else asked}


def _metadata_response(response: Any, names: Names) -> Fields:
    return {
        "brokers": [{"broker": one.node_id, "at": f"{one.host}:{one.port}"} for one in response.brokers],
        "topics": [topic.name for topic in response.topics],
    }


def _find_coordinator_request(request: Any, names: Names) -> Fields:
    kind = {0: "group", 1: "transaction", 2: "share"}.get(request.key_type, request.key_type)
    return {"of": kind, "keys": request.coordinator_keys or [request.key]}


def _find_coordinator_response(response: Any, names: Names) -> Fields:
    found = response.coordinators or [response]
    return {
        "coordinators": [
            {"broker": one.node_id, "at": f"{one.host}:{one.port}"} for one in found if one.node_id is not None
        ]
    }


def _api_versions_response(response: Any, names: Names) -> Fields:
    features = {one.name: one.max_version_level for one in response.finalized_features}
    return {"apis": len(response.api_keys), "transaction_version": features.get("transaction.version")}


# -- transactions


def _identity(message: Any) -> Fields:
    return {"producer_id": message.producer_id, "epoch": message.producer_epoch}


def _init_producer_id_request(request: Any, names: Names) -> Fields:
    return {"transactional_id": request.transactional_id, **_identity(request)}


def _identity_response(response: Any, names: Names) -> Fields:
    return _identity(response)


def _end_txn_request(request: Any, names: Names) -> Fields:
    outcome = "commit" if request.committed else "abort"
    return {"outcome": outcome, "transactional_id": request.transactional_id, **_identity(request)}


def _add_partitions_request(request: Any, names: Names) -> Fields:
    if not request.transactions:
        return {
            "transactional_id": request.v3_and_below_transactional_id,
            "partitions": [name for name, _ in each_partition(request.v3_and_below_topics, "partitions", "", names)],
        }
    return {
        "transactions": [
            {
                "transactional_id": one.transactional_id,
                **_identity(one),
                "verify_only": one.verify_only,
                "partitions": [name for name, _ in each_partition(one.topics, "partitions", "", names)],
            }
            for one in request.transactions
        ]
    }


def _txn_offset_commit_request(request: Any, names: Names) -> Fields:
    return {
        "group": request.group_id,
        "generation": request.generation_id,
        "transactional_id": request.transactional_id,
        **_identity(request),
        "offsets": groups.committed(request, names),
    }


def _markers_request(request: Any, names: Names) -> Fields:
    return {
        "markers": [
            {
                "marker": "commit" if one.transaction_result else "abort",
                **_identity(one),
                "partitions": [name for name, _ in each_partition(one.topics, "partition_indexes", "", names)],
                "coordinator_epoch": one.coordinator_epoch,
            }
            for one in request.markers
        ]
    }


def _nothing(message: Any, names: Names) -> Fields:
    return {}


_Summary: TypeAlias = Callable[[Any, Names], Fields]

_REQUESTS: Final[dict[ApiKey, _Summary]] = {
    ApiKey.PRODUCE: _produce_request,
    ApiKey.FETCH: _fetch_request,
    ApiKey.LIST_OFFSETS: _list_offsets_request,
    ApiKey.METADATA: _metadata_request,
    ApiKey.FIND_COORDINATOR: _find_coordinator_request,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id_request,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions_request,
    ApiKey.END_TXN: _end_txn_request,
    ApiKey.TXN_OFFSET_COMMIT: _txn_offset_commit_request,
    ApiKey.WRITE_TXN_MARKERS: _markers_request,
    ApiKey.OFFSET_COMMIT: groups.offset_commit_request,
    ApiKey.OFFSET_FETCH: groups.offset_fetch_request,
    ApiKey.JOIN_GROUP: groups.join_request,
    ApiKey.SYNC_GROUP: groups.sync_request,
    ApiKey.HEARTBEAT: groups.heartbeat_request,
}

_RESPONSES: Final[dict[ApiKey, _Summary]] = {
    ApiKey.PRODUCE: _produce_response,
    ApiKey.FETCH: _fetch_response,
    ApiKey.LIST_OFFSETS: _list_offsets_response,
    ApiKey.METADATA: _metadata_response,
    ApiKey.FIND_COORDINATOR: _find_coordinator_response,
    ApiKey.API_VERSIONS: _api_versions_response,
    ApiKey.INIT_PRODUCER_ID: _identity_response,
    ApiKey.END_TXN: _identity_response,
    ApiKey.ADD_PARTITIONS_TO_TXN: _nothing,
    ApiKey.TXN_OFFSET_COMMIT: _nothing,
    ApiKey.OFFSET_COMMIT: _nothing,
    ApiKey.OFFSET_FETCH: groups.offset_fetch_response,
    ApiKey.JOIN_GROUP: groups.join_response,
    ApiKey.SYNC_GROUP: groups.sync_response,
}
