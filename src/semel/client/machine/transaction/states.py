"""The eight states of a transactional producer, and the one table of how they follow each other.

    UNINITIALIZED --init--> INITIALIZING --> READY --begin--> IN_TRANSACTION --commit--> COMMITTING --> READY
                                               ^                  |  |                        |
                                               |            abort |  | a send or a            | the coordinator
                                               |                  v  v request failed         v refused
                                               +------------- ABORTING <--abort-- ABORTABLE_ERROR
                                               |                  |
                                               +-- INITIALIZING <-+  where the epoch must be bumped by InitProducerId

READY also goes to INITIALIZING, if the application asks for that bump. Every state goes to FATAL_ERROR, which nothing
leaves. A producer that is attached to another producer's transaction goes from UNINITIALIZED to IN_TRANSACTION, and
from there, or from an error, to the next transaction that it is attached to.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class TransactionState(Enum):
    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "abortable error"
    FATAL_ERROR = "fatal error"


_S = TransactionState

LEGAL_SOURCES: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    _S.UNINITIALIZED: frozenset(),
    _S.INITIALIZING: frozenset({_S.UNINITIALIZED, _S.ABORTING, _S.READY}),
    _S.READY: frozenset({_S.INITIALIZING, _S.COMMITTING, _S.ABORTING}),
    _S.IN_TRANSACTION: frozenset({_S.READY}),
    _S.COMMITTING: frozenset({_S.IN_TRANSACTION}),
    _S.ABORTING: frozenset({_S.IN_TRANSACTION, _S.ABORTABLE_ERROR}),
    _S.ABORTABLE_ERROR: frozenset({_S.IN_TRANSACTION, _S.COMMITTING}),
    _S.FATAL_ERROR: frozenset(_S),
}

LEGAL_SOURCES_ATTACHED: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    _S.IN_TRANSACTION: frozenset({_S.UNINITIALIZED, _S.IN_TRANSACTION, _S.ABORTABLE_ERROR}),
    _S.ABORTABLE_ERROR: frozenset({_S.IN_TRANSACTION}),
    _S.FATAL_ERROR: frozenset(_S),
}
"""The part of the table for a producer that is attached to a transaction of another producer."""
