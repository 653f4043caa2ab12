"""The states of a transaction, and the table of the legal moves between them.

             +------------------------------+  begin: a partition is added
             v                              |
    EMPTY --> ONGOING --> PREPARE_COMMIT --> COMPLETE_COMMIT
      |         |
      |         +-------> PREPARE_ABORT ---> COMPLETE_ABORT
      |                    ^
      +--------------------+  V2 only: an abort without partitions still bumps the epoch

The law: PREPARE is the decision. Once a PREPARE record is committed, the only way on is the COMPLETE of the same
outcome, so no crash, retry or zombie turns a commit into an abort.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final


class TxnState(IntEnum):
    """Kafka's states, with their numbers in ``__transaction_state``."""

    EMPTY = 0
    """The transactional id has a producer id, and no transaction has begun."""
    ONGOING = 1
    """At least one partition was added, and the outcome is not decided."""
    PREPARE_COMMIT = 2
    """The outcome is decided, and the markers are being written."""
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    """Every marker is written. The next transaction may begin."""
    COMPLETE_ABORT = 5
    DEAD = 6
    """The transactional id has expired. Written as a tombstone, never as a state."""
    PREPARE_EPOCH_FENCE = 7
    """Kafka's step between fencing a producer and aborting its transaction. Never written: here both are one record."""

    @property
    def kafka_name(self) -> str:
        """The name in DescribeTransactions and ListTransactions, such as ``PrepareCommit``."""
        return KAFKA_NAMES[self]


KAFKA_NAMES: Final[Mapping[TxnState, str]] = MappingProxyType(
    {state: "".join(word.capitalize() for word in state.name.split("_")) for state in TxnState}
)

IDLE: Final = frozenset({TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT})
"""States without an open transaction or pending markers: a transaction may begin, the producer may be replaced, the id
may expire."""

PREPARED: Final = frozenset({TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT})
"""States in which the outcome is decided and markers are still to be written."""

COMPLETE: Final = frozenset({TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT})

ENDED: Final = PREPARED | COMPLETE
"""States in which the outcome is decided and final."""

LEGAL_SOURCES: Final[Mapping[TxnState, frozenset[TxnState]]] = MappingProxyType(
    {
        TxnState.EMPTY: IDLE,
        TxnState.ONGOING: IDLE | {TxnState.ONGOING},
        TxnState.PREPARE_COMMIT: frozenset({TxnState.ONGOING}),
        # From the idle states with transactions V2 only: an abort without partitions still bumps the epoch.
        TxnState.PREPARE_ABORT: IDLE | {TxnState.ONGOING, TxnState.PREPARE_EPOCH_FENCE},
        TxnState.COMPLETE_COMMIT: frozenset({TxnState.PREPARE_COMMIT}),
        TxnState.COMPLETE_ABORT: frozenset({TxnState.PREPARE_ABORT}),
        TxnState.DEAD: IDLE,
        TxnState.PREPARE_EPOCH_FENCE: frozenset({TxnState.ONGOING}),
    }
)
"""For every state, the states it may be entered from. The table is the documentation."""
