"""A partition as Produce requests of one version name it, and the answers to them, encoded but for a few numbers."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from semel.broker.partitions.partitions import Partition
from semel.broker.produce.frame import API
from semel.errors import ErrorCode, KafkaError, StorageError
from semel.log.partition_log import Appended
from semel.types import ZERO_UUID, Buffer
from semel.wire.framing import encode_response
from semel.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

LOG_START_OFFSET_SINCE: Final = 5

_OFFSETS: Final = Struct(">qqq")  # base offset, log append time, log start offset
_OFFSETS_WITHOUT_START: Final = Struct(">qq")
_CORRELATION_ID: Final = Struct(">i")
_CORRELATION_ID_POSITION: Final = 4
_INDEX_AND_MARK: Final = Struct(">ihq")
_MARK: Final = 0x5E4E4C0FF5E7A55E  # Stands where the offset goes until that is known.
_NONE: Final = -1


class ProduceTarget(NamedTuple):
    """``answer`` is that to a request which was served, with a mark where the numbers go."""

    partition: Partition
    version: int
    topic: str
    topic_id: UUID
    partition_index: int
    answer: bytes
    offsets_position: int

    @classmethod
    def of(cls, partition: Partition, version: int, topic: str, topic_id: UUID, index: int) -> ProduceTarget:
        marked = PartitionProduceResponse(index=index, base_offset=_MARK)
        answer = _encoded(0, version, topic, topic_id, marked)
        return cls(
            partition,
            version,
            topic,
            topic_id,
            index,
            answer,
            answer.rindex(_INDEX_AND_MARK.pack(index, 0, _MARK)) + _INDEX_AND_MARK.size - 8,
        )

    def answered(self, correlation_id: int, appended: Appended) -> bytearray:
        """The answer to a request whose batch is there now."""
        base_offset, _, time_ms, log_start_offset, _ = appended
        if time_ms is None:
            time_ms = _NONE
        answer = bytearray(self.answer)
        _CORRELATION_ID.pack_into(answer, _CORRELATION_ID_POSITION, correlation_id)
        if self.version >= LOG_START_OFFSET_SINCE:
            _OFFSETS.pack_into(answer, self.offsets_position, base_offset, time_ms, log_start_offset)
        else:
            _OFFSETS_WITHOUT_START.pack_into(answer, self.offsets_position, base_offset, time_ms)
        return answer

    def refused(self, correlation_id: int, error: KafkaError | StorageError) -> bytes:
        refused = refused_partition(self.partition_index, error)
        return _encoded(correlation_id, self.version, self.topic, self.topic_id, refused)

    def gone(self) -> KafkaError:
        """Why nothing is appended to a partition that was deleted since the request came."""
        if self.topic_id != ZERO_UUID:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {self.topic_id}")
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.partition.topic_partition} does not exist")

    def taken_back(self, answer: Buffer, code: ErrorCode) -> bytes:
        """What is said in the place of an answer that cannot be given after all."""
        (correlation_id,) = _CORRELATION_ID.unpack_from(answer, _CORRELATION_ID_POSITION)
        log_start_offset = _NONE
        if self.version >= LOG_START_OFFSET_SINCE:
            _, _, log_start_offset = _OFFSETS.unpack_from(answer, self.offsets_position)
        refused = PartitionProduceResponse(
            index=self.partition_index, error_code=code, base_offset=_NONE, log_start_offset=log_start_offset
        )
        return _encoded(correlation_id, self.version, self.topic, self.topic_id, refused)


def refused_partition(index: int, error: KafkaError | StorageError) -> PartitionProduceResponse:
    """What is said about a partition whose batch was not appended, and about the records it was refused for."""
    answer = PartitionProduceResponse(index=index, base_offset=_NONE)
    if isinstance(error, KafkaError):
        answer.error_code, answer.error_message = error.code, error.message
        answer.record_errors = [BatchIndexAndErrorMessage(number, text) for number, text in error.record_errors]
    else:
        answer.error_code, answer.error_message = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
    return answer


def _encoded(
    correlation_id: int, version: int, topic: str, topic_id: UUID, partition: PartitionProduceResponse
) -> bytes:
    response = ProduceResponse(responses=[TopicProduceResponse(topic, topic_id, [partition])])
    return bytes(encode_response(correlation_id, API, version, response))
