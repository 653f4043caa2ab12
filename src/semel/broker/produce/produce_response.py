"""The response to a Produce request, made from the outcomes of its batches."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from semel.broker.network.request import Request
from semel.broker.produce.produce_batch import ProduceBatch, Uncommitted
from semel.errors import ErrorCode, KafkaError, StorageError
from semel.log.outcomes import Appended
from semel.wire.apis import APIS, ApiKey
from semel.wire.framing import encode_response
from semel.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

LOG_START_OFFSET_SINCE: Final = 5

_OFFSETS: Final = Struct(">qqq")  # base offset, log append time, log start offset
_OFFSETS_WITHOUT_START: Final = Struct(">qq")
_CORRELATION_ID: Final = Struct(">i")
_CORRELATION_ID_POSITION: Final = 4
_INDEX_AND_MARK: Final = Struct(">ihq")
_MARK: Final = 0x5E4E4C0FF5E7A55E  # Marks the position of the base offset in a template.
_ABSENT: Final = -1


def produce_response(message: ProduceRequest, batches: Sequence[ProduceBatch]) -> ProduceResponse:
    """Return the response to a decoded request. The batches are those of its partitions, in the request's order."""
    rest = iter(batches)
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                topic.name, topic.topic_id, [partition_response(next(rest)) for _ in topic.partition_data]
            )
            for topic in message.topic_data
        ]
    )


def partition_response(batch: ProduceBatch) -> PartitionProduceResponse:
    response = PartitionProduceResponse(index=batch.index)
    match batch.outcome:
        case Appended(base_offset, _, time_ms, log_start_offset):
            response.base_offset = base_offset
            response.log_append_time_ms = time_ms
            response.log_start_offset = log_start_offset
        case Uncommitted(code, log_start_offset):
            response.error_code, response.log_start_offset = code, log_start_offset
        case KafkaError() as error:
            response.error_code, response.error_message = error.code, error.message
            response.record_errors = [BatchIndexAndErrorMessage(number, text) for number, text in error.record_errors]
        case StorageError() as error:
            response.error_code, response.error_message = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
        case None:
            raise AssertionError("a batch without an outcome is answered")
    return response


class ResponseTemplate(NamedTuple):
    """The encoded response to requests of one version with one batch for one partition.

    The correlation id, base offset, append time and log start offset are filled in for each request.
    """

    version: int
    topic: str
    topic_id: UUID
    encoded: bytes
    offsets_position: int

    @classmethod
    def of(cls, version: int, topic: str, topic_id: UUID, index: int) -> ResponseTemplate:
        marked = PartitionProduceResponse(index=index, base_offset=_MARK)
        response = ProduceResponse(responses=[TopicProduceResponse(topic, topic_id, [marked])])
        encoded = bytes(encode_response(0, APIS[ApiKey.PRODUCE], version, response))
        position = encoded.rindex(_INDEX_AND_MARK.pack(index, 0, _MARK)) + _INDEX_AND_MARK.size - 8
        return cls(version, topic, topic_id, encoded, position)

    def respond(self, request: Request, batches: Sequence[ProduceBatch]) -> None:
        (batch,) = batches
        outcome = batch.outcome
        if not isinstance(outcome, Appended):
            topic = TopicProduceResponse(self.topic, self.topic_id, [partition_response(batch)])
            request.answer(ProduceResponse(responses=[topic]))
            return
        base_offset, _, time_ms, log_start_offset, _ = outcome
        if time_ms is None:
            time_ms = _ABSENT
        answer = bytearray(self.encoded)
        _CORRELATION_ID.pack_into(answer, _CORRELATION_ID_POSITION, request.correlation_id)
        if self.version >= LOG_START_OFFSET_SINCE:
            _OFFSETS.pack_into(answer, self.offsets_position, base_offset, time_ms, log_start_offset)
        else:
            _OFFSETS_WITHOUT_START.pack_into(answer, self.offsets_position, base_offset, time_ms)
        request.send([answer])
