"""The requests of a transaction: what is sent for each step, and the error codes in the responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from semel.client.config.producer import ProducerConfig
from semel.client.machine.transaction.steps import (
    AddOffsets,
    AddPartitions,
    CommitOffsets,
    EndTransaction,
    InitProducerId,
)
from semel.client.machine.transaction.transaction import Transaction
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from semel.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from semel.wire.messages.end_txn import EndTxnRequest
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

RequestOf: TypeAlias = tuple[ApiKey, Callable[[int], object]]
"""The API key, and a function that builds the message for a version."""


def init_request(config: ProducerConfig, step: InitProducerId) -> RequestOf:
    producer_id, epoch = step.resume or (None, None)
    return ApiKey.INIT_PRODUCER_ID, lambda version: InitProducerIdRequest(
        config.transactional_id, config.transaction_timeout_ms, producer_id, epoch
    )


def add_partitions_request(transaction: Transaction, step: AddPartitions) -> RequestOf:
    topics: dict[str, list[int]] = {}
    for topic, partition in step.partitions:
        topics.setdefault(topic, []).append(partition)
    identity = transaction.producer_identity
    return ApiKey.ADD_PARTITIONS_TO_TXN, lambda version: AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transaction.transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name, partitions) for name, partitions in topics.items()],
    )


def add_offsets_request(transaction: Transaction, step: AddOffsets) -> RequestOf:
    identity = transaction.producer_identity
    return ApiKey.ADD_OFFSETS_TO_TXN, lambda version: AddOffsetsToTxnRequest(
        transaction.transactional_id, identity.producer_id, identity.producer_epoch, step.group_id
    )


def commit_offsets_request(transaction: Transaction, step: CommitOffsets) -> RequestOf:
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for (topic, partition), committed in step.remaining.items():
        topics.setdefault(topic, TxnOffsetCommitRequestTopic(topic, [])).partitions.append(
            TxnOffsetCommitRequestPartition(partition, committed.offset, committed.leader_epoch, committed.metadata)
        )
    identity, group = transaction.producer_identity, step.group
    return ApiKey.TXN_OFFSET_COMMIT, lambda version: TxnOffsetCommitRequest(
        transactional_id=transaction.transactional_id,
        group_id=group.group_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=list(topics.values()),
    )


def end_request(transaction: Transaction, step: EndTransaction) -> RequestOf:
    identity = transaction.producer_identity
    return ApiKey.END_TXN, lambda version: EndTxnRequest(
        transaction.transactional_id, identity.producer_id, identity.producer_epoch, step.committed
    )


def partition_codes(response: AddPartitionsToTxnResponse) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, result.partition_index): result.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for result in topic.results_by_partition
    }


def offset_codes(response: TxnOffsetCommitResponse) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, partition.partition_index): partition.error_code
        for topic in response.topics
        for partition in topic.partitions
    }
