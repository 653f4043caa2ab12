"""The exceptions that Semel raises, and Kafka's error codes.

Assertions are for our bugs, exceptions for errors from outside, and error codes exist only on the wire: a layer below
the broker raises an exception, and the request handler turns it into Kafka's error code for that case.

    SemelError
    |-- DecodeError        bytes that are not what they claim to be (a connection closes, a batch is refused)
    |-- KafkaError         a request that failed with an error code of Kafka's protocol; carries the code
    |   |-- RetriableError     a client's call ran out of time; the same call may succeed later
    |   |   `-- TimedOut           ... because no response came in time
    |   |-- AbortableError     this record, topic, group or transaction failed: abort the transaction, carry on
    |   `-- FatalError         this client cannot go on: close it
    |       |-- ProducerFenced     another producer has taken over the transactional id
    |       |-- AuthorizationFailed
    |       |-- UnsupportedVersion
    |       `-- ClientFailed       a mistake inside the client itself
    |-- StateError         a call that the client's state does not allow; names the state
    `-- StorageError       a disk that failed; its partitions go offline, and no write is assumed to be done

A client's errors come in three families. ``FAMILIES`` maps every code to its family. Only where a request gives a code
another meaning, the code that handles its response decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import Final


class ErrorCode(IntEnum):
    """Kafka's error codes, under Kafka's names."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133


class SemelError(Exception):
    """The base class of all exceptions that Semel raises on purpose."""


class DecodeError(SemelError):
    """Bytes that break the format they should have. The message names the position and the rule."""


class KafkaError(SemelError):
    """A failed request, with the error code that goes on the wire and a message for people.

    ``record_errors``: if a batch was refused because of some of its records, the index of each of them in the batch and
    a message for it (KIP-467).
    """

    def __init__(self, code: ErrorCode, message: str = "", *, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.record_errors = record_errors
        self.message = message or code.name

    def __str__(self) -> str:
        return self.message if self.message == self.code.name else f"{self.code.name}: {self.message}"


class StorageError(SemelError):
    """The disk failed to write or lost data. A write that is not acknowledged yet must never be acknowledged."""


class StateError(SemelError):
    """A call in a state that does not allow it. The call changed nothing."""


class Family(Enum):
    """What a client does about an error."""

    RETRIABLE = "retriable"
    """The request may succeed later. The client retries by itself; its caller gets the error only after the timeout."""
    ABORTABLE = "abortable"
    """One operation failed. The transaction that it was part of must be aborted; the client can be used further."""
    FATAL = "fatal"
    """The client can do nothing more and must be closed."""


class RetriableError(KafkaError):
    """The call did not succeed before its timeout, and may succeed later. The broker may still have carried it out."""


class TimedOut(RetriableError):
    """No response came before the timeout."""


class AbortableError(KafkaError):
    """The operation failed and retrying it does not help. Abort the transaction, if there is one; the client can be
    used further."""


class FatalError(KafkaError):
    """The client cannot be used any more and must be closed. Whether to make a new one depends on the reason."""


class ProducerFenced(FatalError):
    """The broker has a newer epoch for this producer: another one took over its id, or its transaction timed out."""


class AuthorizationFailed(FatalError):
    """The client failed to authenticate, or is not authorized for the operation."""


class UnsupportedVersion(FatalError):
    """The broker is too old or too new: it does not support the request in a version that the client needs."""


class ClientFailed(FatalError):
    """A bug inside the client: an unexpected exception, which is the ``__cause__``. The client has closed itself.

    Whether the operations that were in progress were carried out is not known.
    """

    def __str__(self) -> str:
        return self.message  # Without the code: no broker sent it.


def family_of(code: int) -> Family:
    """Return the family of a code from the wire. A code that is not in ``ErrorCode`` counts as UNKNOWN_SERVER_ERROR."""
    return FAMILIES.get(named(code), Family.RETRIABLE)


def named(code: int) -> ErrorCode:
    """Return the ``ErrorCode`` of a number, or UNKNOWN_SERVER_ERROR if the number is newer than this table."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def client_error(code: int, message: str, family: Family | None = None) -> RetriableError | AbortableError | FatalError:
    """Return the exception for a code: its type follows from the family, its text says what happened and what to do.

    ``family`` overrides the table, for the few requests in which a code has another meaning than elsewhere.
    """
    name = named(code)
    family = family or family_of(code)
    text = f"{message}. {_ADVICE_OF.get(name, _ADVICE[family])}"
    match family:
        case Family.RETRIABLE:
            return (TimedOut if name is ErrorCode.REQUEST_TIMED_OUT else RetriableError)(name, text)
        case Family.ABORTABLE:
            return AbortableError(name, text)
        case Family.FATAL:
            return _FATAL_TYPES.get(name, FatalError)(name, text)


_ADVICE: Final = {
    Family.RETRIABLE: "It may work later: try again",
    Family.ABORTABLE: "Abort the transaction, if there is one; the client can go on",
    Family.FATAL: "This client cannot go on: close it",
}

_ADVICE_OF: Final = {
    ErrorCode.PRODUCER_FENCED: "Another producer uses this transactional id, or the transaction took longer than "
    "transaction.timeout.ms: close this one",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "Lower transaction.timeout.ms, or raise transaction.max.timeout.ms of the "
    "broker",
    ErrorCode.MESSAGE_TOO_LARGE: "Raise the topic's max.message.bytes, or send less; the client can go on",
}

_FATAL_TYPES: Final[Mapping[ErrorCode, type[FatalError]]] = {
    ErrorCode.PRODUCER_FENCED: ProducerFenced,
    ErrorCode.UNSUPPORTED_VERSION: UnsupportedVersion,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: UnsupportedVersion,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: AuthorizationFailed,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: AuthorizationFailed,
    ErrorCode.SASL_AUTHENTICATION_FAILED: AuthorizationFailed,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: AuthorizationFailed,
    ErrorCode.ILLEGAL_SASL_STATE: AuthorizationFailed,
}


def _table(families: Mapping[Family, str]) -> dict[ErrorCode, Family]:
    return {ErrorCode[name]: family for family, names in families.items() for name in names.split()}


# What a code means for the client that sent the request. Where a request gives a code another meaning, the code that
# handles its response decides: INVALID_PRODUCER_EPOCH and INVALID_TXN_STATE are abortable for a batch, and fatal from
# the coordinator.
FAMILIES: Final[Mapping[ErrorCode, Family]] = _table(
    {
        # UNKNOWN_SERVER_ERROR does not say its cause, so a retry may succeed. A retry is safe: every operation that
        # must not happen twice carries a number by which the broker recognizes the repetition.
        Family.RETRIABLE: """
            UNKNOWN_SERVER_ERROR CORRUPT_MESSAGE UNKNOWN_TOPIC_OR_PARTITION LEADER_NOT_AVAILABLE NOT_LEADER_OR_FOLLOWER
            REQUEST_TIMED_OUT BROKER_NOT_AVAILABLE REPLICA_NOT_AVAILABLE STALE_CONTROLLER_EPOCH NETWORK_EXCEPTION
            COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR NOT_ENOUGH_REPLICAS
            NOT_ENOUGH_REPLICAS_AFTER_APPEND REBALANCE_IN_PROGRESS NOT_CONTROLLER CONCURRENT_TRANSACTIONS
            KAFKA_STORAGE_ERROR REASSIGNMENT_IN_PROGRESS FETCH_SESSION_ID_NOT_FOUND INVALID_FETCH_SESSION_EPOCH
            LISTENER_NOT_FOUND FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH STALE_BROKER_EPOCH OFFSET_NOT_AVAILABLE
            MEMBER_ID_REQUIRED PREFERRED_LEADER_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE UNSTABLE_OFFSET_COMMIT
            THROTTLING_QUOTA_EXCEEDED UNKNOWN_TOPIC_ID BROKER_ID_NOT_REGISTERED INCONSISTENT_TOPIC_ID
            FETCH_SESSION_TOPIC_ID_ERROR INELIGIBLE_REPLICA NEW_LEADER_ELECTED OFFSET_MOVED_TO_TIERED_STORAGE
            UNKNOWN_CONTROLLER_ID UNKNOWN_SUBSCRIPTION_ID SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH
            REBOOTSTRAP_REQUIRED SHARE_SESSION_LIMIT_REACHED
        """,
        Family.ABORTABLE: """
            OFFSET_OUT_OF_RANGE INVALID_FETCH_SIZE MESSAGE_TOO_LARGE OFFSET_METADATA_TOO_LARGE INVALID_TOPIC_EXCEPTION
            RECORD_LIST_TOO_LARGE ILLEGAL_GENERATION INCONSISTENT_GROUP_PROTOCOL INVALID_GROUP_ID UNKNOWN_MEMBER_ID
            INVALID_SESSION_TIMEOUT INVALID_COMMIT_OFFSET_SIZE TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED
            INVALID_TIMESTAMP TOPIC_ALREADY_EXISTS INVALID_PARTITIONS INVALID_REPLICATION_FACTOR
            INVALID_REPLICA_ASSIGNMENT INVALID_CONFIG POLICY_VIOLATION OUT_OF_ORDER_SEQUENCE_NUMBER
            DUPLICATE_SEQUENCE_NUMBER INVALID_PRODUCER_EPOCH INVALID_PRODUCER_ID_MAPPING OPERATION_NOT_ATTEMPTED
            LOG_DIR_NOT_FOUND UNKNOWN_PRODUCER_ID DELEGATION_TOKEN_NOT_FOUND DELEGATION_TOKEN_OWNER_MISMATCH
            DELEGATION_TOKEN_EXPIRED INVALID_PRINCIPAL_TYPE NON_EMPTY_GROUP GROUP_ID_NOT_FOUND TOPIC_DELETION_DISABLED
            GROUP_MAX_SIZE_REACHED FENCED_INSTANCE_ID ELECTION_NOT_NEEDED NO_REASSIGNMENT_IN_PROGRESS
            GROUP_SUBSCRIBED_TO_TOPIC INVALID_RECORD RESOURCE_NOT_FOUND DUPLICATE_RESOURCE UNACCEPTABLE_CREDENTIAL
            INVALID_UPDATE_VERSION FEATURE_UPDATE_FAILED SNAPSHOT_NOT_FOUND POSITION_OUT_OF_RANGE
            DUPLICATE_BROKER_REGISTRATION TRANSACTIONAL_ID_NOT_FOUND FENCED_MEMBER_EPOCH UNRELEASED_INSTANCE_ID
            UNSUPPORTED_ASSIGNOR STALE_MEMBER_EPOCH TELEMETRY_TOO_LARGE TRANSACTION_ABORTABLE INVALID_RECORD_STATE
            FENCED_STATE_EPOCH DUPLICATE_VOTER VOTER_NOT_FOUND INVALID_REGULAR_EXPRESSION STREAMS_INVALID_TOPOLOGY
            STREAMS_INVALID_TOPOLOGY_EPOCH STREAMS_TOPOLOGY_FENCED
        """,
        Family.FATAL: """
            INVALID_REQUIRED_ACKS CLUSTER_AUTHORIZATION_FAILED UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE
            UNSUPPORTED_VERSION INVALID_REQUEST UNSUPPORTED_FOR_MESSAGE_FORMAT INVALID_TXN_STATE
            INVALID_TRANSACTION_TIMEOUT TRANSACTION_COORDINATOR_FENCED TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            SECURITY_DISABLED SASL_AUTHENTICATION_FAILED DELEGATION_TOKEN_AUTH_DISABLED
            DELEGATION_TOKEN_REQUEST_NOT_ALLOWED DELEGATION_TOKEN_AUTHORIZATION_FAILED UNSUPPORTED_COMPRESSION_TYPE
            PRODUCER_FENCED INCONSISTENT_VOTER_SET PRINCIPAL_DESERIALIZATION_FAILURE INCONSISTENT_CLUSTER_ID
            MISMATCHED_ENDPOINT_TYPE UNSUPPORTED_ENDPOINT_TYPE INVALID_REGISTRATION INVALID_VOTER_KEY
        """,
    }
)
