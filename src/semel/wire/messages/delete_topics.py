"""DeleteTopics: delete topics by name, and from version 6 on by name or id."""

from __future__ import annotations

from uuid import UUID

from semel.wire.schema import INT16, INT32, STRING, UUID_, array, field, message, struct


@struct
class DeleteTopicState:
    name: str | None = field(STRING, nullable=6, default=None)
    topic_id: UUID = field(UUID_)


@message(versions=(1, 6), flexible_since=4)
class DeleteTopicsRequest:
    topics: list[DeleteTopicState] = field(array(DeleteTopicState), since=6)
    topic_names: list[str] = field(array(STRING), until=5)
    timeout_ms: int = field(INT32)


@struct
class DeletableTopicResult:
    name: str | None = field(STRING, nullable=6)
    topic_id: UUID = field(UUID_, since=6)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, since=5, nullable=5, default=None)


@message(versions=(1, 6), flexible_since=4)
class DeleteTopicsResponse:
    throttle_time_ms: int = field(INT32)
    responses: list[DeletableTopicResult] = field(array(DeletableTopicResult))
