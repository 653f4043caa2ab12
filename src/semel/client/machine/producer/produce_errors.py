"""What a producer does with a batch after its answer: one function that returns a verdict, and its sets of codes.

The danger is the same with every code. A batch that is in the log already and gets new sequence numbers would be
written twice; a batch that loses its place in the order would be overtaken by a later one. So a batch is in doubt as
soon as one attempt ended with anything but a definite refusal, and a batch in doubt is only ever sent again unchanged.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from semel.errors import ErrorCode, Family, family_of

NOT_WRITTEN: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_RECORD,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors that come before anything is appended. NOT_LEADER_OR_FOLLOWER is not one of them (KAFKA-13574)."""

DISOWNED: Final = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH}
)
"""Errors by which a broker refuses the producer id, the epoch or the sequence of a batch."""

OUTDATED_METADATA: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""Errors after which the metadata must be renewed, because another broker may have to be asked."""

BATCH_FATAL: Final = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""The fatal codes that concern the producer, and not only the batch that got them."""


class Verdict(Enum):
    SUCCEED = auto()
    RETRY = auto()
    WAIT_FOR_PREDECESSOR = auto()
    """The batch came too early: send it again once those before it are settled."""
    RENUMBER = auto()
    """The batch is in no log, and its numbers cannot be used any more: send it under a new epoch."""
    SPLIT = auto()
    FAIL = auto()


def verdict_on(
    code: int,
    *,
    is_numbered: bool,
    is_transactional: bool,
    is_first: bool,
    is_in_doubt: bool,
    record_count: int,
    may_retry: bool,
) -> Verdict:
    """Return what to do with a batch that was answered with this code.

    ``is_first``: all batches that were drained before it are settled. ``is_in_doubt``: an attempt may have written it.
    """
    if code == ErrorCode.NONE or (code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER and is_numbered):
        return Verdict.SUCCEED
    if code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE) and record_count > 1 and not is_in_doubt:
        return Verdict.SPLIT
    if is_numbered and code in DISOWNED:
        if is_transactional and code == ErrorCode.INVALID_PRODUCER_EPOCH:
            return Verdict.FAIL
        if not is_first:
            return Verdict.WAIT_FOR_PREDECESSOR
        # Within a transaction no batch gets new numbers: the transaction has failed, and the next one begins at 0.
        return Verdict.FAIL if is_transactional or is_in_doubt else Verdict.RENUMBER
    if family_of(code) is Family.RETRIABLE and may_retry:
        return Verdict.RETRY
    return Verdict.FAIL
