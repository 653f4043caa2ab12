"""Reading a partition's record batches as they are in the log, control batches and aborted ones included.

It is for tools that show what a consumer does not return. No state is kept between two reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from semel.client.machine.admin.ask import Ask, Leader, outcome
from semel.types import Buffer, TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.fetch import AbortedTransaction, FetchPartition, FetchRequest, FetchTopic, PartitionData

_READ_COMMITTED: Final = 1
# The last version that names topics; from the next one on they have ids.
_NAMES_UNTIL: Final = 12
_WAIT_MS: Final = 500


@dataclass(frozen=True, slots=True)
class RawBatches:
    """Record batches, from the one that has the offset on; the last may be cut off. Empty at the end of the log.

    ``aborted`` has the aborted transactions that overlap them, as (producer id, first offset).
    """

    records: Buffer
    aborted: tuple[tuple[int, int], ...]
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


def read_batches(offset: int, *, stable_only: bool, max_bytes: int) -> Ask[TopicPartition, RawBatches]:
    """Return the ask for a Fetch of one partition.

    ``stable_only``: up to the last stable offset, with the aborted transactions; else everything that can be read.
    """
    return Ask(
        ApiKey.FETCH,
        target=Leader,
        build=lambda partitions, version: FetchRequest(
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=_READ_COMMITTED if stable_only else 0,
            topics=[
                FetchTopic(
                    topic=topic,
                    partitions=[FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)],
                )
                for topic, index in partitions
            ],
        ),
        read=lambda response, partitions, version: [
            (TopicPartition(topic.topic, answer.partition_index), outcome(_raw(answer), answer.error_code))
            for topic in response.responses
            for answer in topic.partitions
        ],
        is_single=True,
        version_max=_NAMES_UNTIL,
    )


def _raw(answer: PartitionData) -> RawBatches:
    aborted: list[AbortedTransaction] = answer.aborted_transactions or []
    return RawBatches(
        answer.records or b"",  # A view of the frame, which the caller may keep.
        tuple((transaction.producer_id, transaction.first_offset) for transaction in aborted),
        answer.high_watermark,
        answer.last_stable_offset,
        answer.log_start_offset,
    )
