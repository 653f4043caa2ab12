"""The Produce request for a set of batches, and what its answer says about each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from semel.client.config.producer import ProducerConfig
from semel.client.machine.connection.calls import Call
from semel.client.machine.connection.cluster_view import ClusterView
from semel.client.machine.producer.batch import Acknowledged, ProducerBatch
from semel.client.machine.producer.sequences import TRANSACTIONS_V2
from semel.errors import ErrorCode
from semel.types import ZERO_UUID, Address
from semel.wire.apis import ApiKey
from semel.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

TOPIC_IDS_SINCE: Final = 13
IMPLICIT_ADDING_SINCE: Final = 12
"""From this version on, a batch of a transaction adds its partition to the transaction (transactions V2, KIP-890)."""


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    """The answer of a broker about one batch."""

    code: int
    base_offset: int | None = None
    log_append_time_ms: int | None = None
    message: str | None = None
    leader: tuple[int, int] | None = None
    """The broker that leads the partition instead, and its leader epoch."""

    def acknowledged(self) -> Acknowledged:
        return Acknowledged(self.base_offset if self.code == ErrorCode.NONE else None, self.log_append_time_ms)


Answers: TypeAlias = Sequence[tuple[ProducerBatch, BatchAnswer]]


def produce_call(
    batches: Sequence[ProducerBatch],
    *,
    config: ProducerConfig,
    view: ClusterView,
    transaction_version: int | None,
    answered: Callable[[Answers, dict[int, Address], float], None],
    lost: Callable[[Sequence[ProducerBatch], str, float], None],
) -> Call:
    """Return the request with these batches. ``transaction_version`` is ``None`` outside of transactions."""
    version_min = version_max = None
    if transaction_version is not None and transaction_version < TRANSACTIONS_V2:
        version_max = IMPLICIT_ADDING_SINCE - 1
    elif transaction_version is not None:
        version_min = IMPLICIT_ADDING_SINCE
    if version_max is None and any(view.topic_id(batch.topic_partition.topic) == ZERO_UUID for batch in batches):
        version_max = TOPIC_IDS_SINCE - 1

    def build(version: int) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            topic, partition = batch.topic_partition
            data = topics.get(topic)
            if data is None:
                data = topics[topic] = TopicProduceData(topic, view.topic_id(topic), [])
            data.partition_data.append(PartitionProduceData(partition, batch.records))
        return ProduceRequest(
            transactional_id=None if transaction_version is None else config.transactional_id,
            acks=config.acks,
            timeout_ms=config.client.request_timeout_ms,
            topic_data=list(topics.values()),
        )

    def received(response: Any, version: int, now_ms: float) -> None:
        assert isinstance(response, ProduceResponse)
        said = _by_partition(response, view, version)
        unsaid = BatchAnswer(ErrorCode.UNKNOWN_SERVER_ERROR, message="the answer does not mention this partition")
        brokers = {node.node_id: Address(node.host, node.port) for node in response.node_endpoints}
        answered([(batch, said.get(batch.topic_partition, unsaid)) for batch in batches], brokers, now_ms)

    return Call(
        ApiKey.PRODUCE,
        build=build,
        answered=received,
        lost=lambda reason, now_ms: lost(batches, reason, now_ms),
        version_min=version_min,
        version_max=version_max,
        wants_answer=config.acks != 0,
    )


def _by_partition(response: ProduceResponse, view: ClusterView, version: int) -> dict[tuple[str, int], BatchAnswer]:
    found: dict[tuple[str, int], BatchAnswer] = {}
    for topic in response.responses:
        name = view.topic_names.get(topic.topic_id, "") if version >= TOPIC_IDS_SINCE else topic.name
        for partition in topic.partition_responses:
            found[name, partition.index] = _answer(partition)
    return found


def _answer(partition: PartitionProduceResponse) -> BatchAnswer:
    leader, epoch = partition.current_leader.leader_id, partition.current_leader.leader_epoch
    errors = [error.batch_index_error_message for error in partition.record_errors if error.batch_index_error_message]
    return BatchAnswer(
        partition.error_code,
        partition.base_offset,
        partition.log_append_time_ms,
        "; ".join(filter(None, [partition.error_message, *errors])) or None,
        None if leader is None or epoch is None else (leader, epoch),
    )
