"""WriteTxnMarkers (versions 1-2): appends the markers of ended transactions to partitions that this broker leads.

The request is sent by a coordinator on another broker, or by an administrator to abort a hanging transaction (KIP-664).
The response says for each partition whether the marker is committed. A partition with too few in-sync replicas is
refused (NOT_ENOUGH_REPLICAS): its marker could not be committed now, and the response would wait for it, with the
markers of all other transactions behind it.

The markers of a coordinator that has been replaced are refused with TRANSACTION_COORDINATOR_FENCED. A coordinator epoch
that no coordinator of this cluster can have yet is refused with INVALID_REQUEST: if it were in the log, the markers of
the real coordinator would be refused. From a broker such an epoch is accepted, because the image of this broker may be
older.
"""

from __future__ import annotations

from semel.broker.coordinators.markers import append_marker, highest_coordinator_epoch
from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.errors import ErrorCode, KafkaError, StorageError
from semel.types import ProducerIdentity, TopicPartition
from semel.wire.control import EndTransactionMarker
from semel.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


def write_txn_markers(node: Node, request: Request, message: WriteTxnMarkersRequest) -> None:
    delayed = _DelayedMarkers(request)
    for marker in message.markers:
        delayed.response.markers.append(_write(node, marker, delayed, is_trusted=request.is_from_broker))
    delayed.all_are_written()
    request.hold_until_answered()


class _DelayedMarkers:
    """A request whose markers are being appended and are not all committed yet."""

    def __init__(self, request: Request) -> None:
        self.response = WriteTxnMarkersResponse()
        self._request = request
        self._waiting = 1  # One for the request itself, until all its markers are appended.

    def wait_for(self) -> None:
        self._waiting += 1

    def committed(self, token: object) -> None:
        self.all_are_written()

    def failed(self, token: object, code: ErrorCode) -> None:
        assert isinstance(token, WritableTxnMarkerPartitionResult)
        token.error_code = code
        self.all_are_written()

    def all_are_written(self) -> None:
        self._waiting -= 1
        if self._waiting == 0:
            self._request.answer_delayed(lambda: self.response)


def _write(
    node: Node, marker: WritableTxnMarker, delayed: _DelayedMarkers, *, is_trusted: bool
) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        marker.producer_id,
        [
            WritableTxnMarkerTopicResult(
                topic.name,
                [
                    _write_one(node, marker, TopicPartition(topic.name, index), delayed, is_trusted=is_trusted)
                    for index in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ],
    )


def _write_one(
    node: Node,
    marker: WritableTxnMarker,
    topic_partition: TopicPartition,
    delayed: _DelayedMarkers,
    *,
    is_trusted: bool,
) -> WritableTxnMarkerPartitionResult:
    result = WritableTxnMarkerPartitionResult(topic_partition.partition)
    is_forged = not is_trusted and _is_forged(node, marker, topic_partition)
    if marker.producer_id < 0 or marker.producer_epoch < 0 or is_forged:
        result.error_code = ErrorCode.INVALID_REQUEST
        return result
    try:
        node.led_partition(*topic_partition).check_enough_replicas()
        partition, last_offset = append_marker(
            node,
            topic_partition,
            ProducerIdentity(marker.producer_id, marker.producer_epoch),
            EndTransactionMarker(marker.transaction_result, marker.coordinator_epoch),
            transaction_version=marker.transaction_version,
        )
    except KafkaError as error:
        result.error_code = error.code
        return result
    except StorageError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    if partition.log.high_watermark <= last_offset:
        delayed.wait_for()
        partition.when_committed(last_offset, delayed, result)
    return result


def _is_forged(node: Node, marker: WritableTxnMarker, topic_partition: TopicPartition) -> bool:
    """Whether no coordinator can have this epoch. One that the partition has already does no further harm."""
    if marker.coordinator_epoch <= highest_coordinator_epoch(node):
        return False
    partition = node.partitions.get(*topic_partition)
    known = None if partition is None else partition.log.producers.coordinator_epoch(marker.producer_id)
    return known is None or marker.coordinator_epoch > known
