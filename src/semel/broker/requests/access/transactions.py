"""The rights that the APIs about transactions and coordinators need."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Final

from semel.broker.network.request import Request
from semel.broker.requests.access.declarations import (
    SLICE_NAMES,
    Access,
    CheckedByHandler,
    Items,
    Names,
    Need,
    each,
    item_name,
    name_in_field,
    the_cluster,
)
from semel.errors import ErrorCode
from semel.metadata.image import ClusterImage
from semel.security.acls import CLUSTER_NAME
from semel.security.rights import (
    ALTER_CLUSTER,
    CLUSTER_ACTION,
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    DESCRIBE_TRANSACTIONAL_ID,
    IDEMPOTENT_WRITE,
    READ_GROUP,
    READ_TOPIC,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    Right,
    Rights,
)
from semel.wire.messages import describe_transactions, list_transactions
from semel.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from semel.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from semel.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_WRITES_ID: Final = Need(WRITE_TRANSACTIONAL_ID, name_in_field("transactional_id"))
_READS_GROUP: Final = Need(READ_GROUP, name_in_field("group_id"))

END_TXN: Final = Access(whole=(_WRITES_ID,))
ADD_OFFSETS_TO_TXN: Final = Access(whole=(_WRITES_ID, _READS_GROUP))


def _without_transactional_id(image: ClusterImage, message: InitProducerIdRequest) -> Iterable[str]:
    return (CLUSTER_NAME,) if message.transactional_id is None else ()


INIT_PRODUCER_ID: Final = Access(
    whole=(_WRITES_ID, Need(IDEMPOTENT_WRITE, _without_transactional_id, some=WRITE_TOPIC)),
)

# Coordinators


_GROUP, _TRANSACTION, _SHARE = 0, 1, 2


def _key_of(key_type: int) -> Names:
    def names(image: ClusterImage, message: FindCoordinatorRequest) -> Iterable[str]:
        return (message.key,) if message.key_type == key_type else ()

    return names


def _keys(of_types: dict[int, Right]) -> Items:
    """Return items of which each key needs a right by the request's key type. The handler refuses unknown types."""

    def check(rights: Rights, image: ClusterImage, message: FindCoordinatorRequest, key: str) -> Coordinator | None:
        right = of_types.get(message.key_type)
        if right is None or rights.demand(right, CLUSTER_NAME if right is CLUSTER_ACTION else key):
            return None
        return Coordinator(key, error_code=right.refusal, error_message=None)

    needs = tuple(Need(right, item_name) for right in of_types.values())
    return Items("coordinator_keys", "coordinators", needs, check)


_COORDINATED: Final = {_GROUP: DESCRIBE_GROUP, _TRANSACTION: DESCRIBE_TRANSACTIONAL_ID}

FIND_COORDINATOR: Final = Access(
    items=_keys(_COORDINATED | {_SHARE: CLUSTER_ACTION}),
    since=6,
    earlier=Access(
        items=_keys(_COORDINATED),
        since=4,
        earlier=Access(whole=tuple(Need(right, _key_of(key_type)) for key_type, right in _COORDINATED.items())),
    ),
)

# Partitions and markers


def _add_partitions(request: Request, message: AddPartitionsToTxnRequest, code: ErrorCode) -> object:
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                topic.name, [AddPartitionsToTxnPartitionResult(index, code) for index in topic.partitions]
            )
            for topic in message.v3_and_below_topics
        ]
    )


ADD_PARTITIONS_TO_TXN: Final = Access(
    whole=(Need(CLUSTER_ACTION, the_cluster),),
    since=4,
    earlier=Access(
        whole=(Need(WRITE_TRANSACTIONAL_ID, name_in_field("v3_and_below_transactional_id")),),
        refuse=_add_partitions,
        checked_by_handler=(
            CheckedByHandler(WRITE_TOPIC, "its partitions are refused, and the others are not attempted"),
        ),
    ),
)


def _write_txn_markers(request: Request, message: WriteTxnMarkersRequest, code: ErrorCode) -> object:
    return WriteTxnMarkersResponse(
        [
            WritableTxnMarkerResult(
                marker.producer_id,
                [
                    WritableTxnMarkerTopicResult(
                        topic.name, [WritableTxnMarkerPartitionResult(index, code) for index in topic.partition_indexes]
                    )
                    for topic in marker.topics
                ],
            )
            for marker in message.markers
        ]
    )


WRITE_TXN_MARKERS: Final = Access(
    whole=(Need(CLUSTER_ACTION, the_cluster, instead=ALTER_CLUSTER),), refuse=_write_txn_markers
)


def _txn_offset_commit_topic(topic: TxnOffsetCommitRequestTopic, code: ErrorCode) -> TxnOffsetCommitResponseTopic:
    partitions = [TxnOffsetCommitResponsePartition(partition.partition_index, code) for partition in topic.partitions]
    return TxnOffsetCommitResponseTopic(topic.name, partitions)


def _txn_offset_commit(request: Request, message: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(topics=[_txn_offset_commit_topic(topic, code) for topic in message.topics])


TXN_OFFSET_COMMIT: Final = Access(
    whole=(_WRITES_ID, _READS_GROUP),
    refuse=_txn_offset_commit,
    items=each("topics", "topics", Need(READ_TOPIC, name_in_field("name")), refused=_txn_offset_commit_topic),
)

# Descriptions


def _describe_transactions(transactional_id: str, code: ErrorCode) -> describe_transactions.TransactionState:
    return describe_transactions.TransactionState(code, transactional_id)


def _without_hidden_topics(
    rights: Rights, response: describe_transactions.DescribeTransactionsResponse
) -> Generator[None, None, None]:
    for state in response.transaction_states:
        state.topics = [topic for topic in state.topics if rights.may(DESCRIBE_TOPIC, topic.topic)]
        yield


DESCRIBE_TRANSACTIONS: Final = Access(
    items=each(
        "transactional_ids",
        "transaction_states",
        Need(DESCRIBE_TRANSACTIONAL_ID, item_name),
        refused=_describe_transactions,
    ),
    answer=_without_hidden_topics,
    checked_by_handler=(CheckedByHandler(DESCRIBE_TOPIC, "the topic is left out"),),
)


def _only_described(
    rights: Rights, response: list_transactions.ListTransactionsResponse
) -> Generator[None, None, None]:
    states, kept = response.transaction_states, list[list_transactions.TransactionState]()
    for start in range(0, len(states), SLICE_NAMES):
        some = states[start : start + SLICE_NAMES]
        kept += (state for state in some if rights.may(DESCRIBE_TRANSACTIONAL_ID, state.transactional_id))
        yield
    response.transaction_states = kept


LIST_TRANSACTIONS: Final = Access(
    answer=_only_described,
    checked_by_handler=(CheckedByHandler(DESCRIBE_TRANSACTIONAL_ID, "the transaction is left out"),),
)
