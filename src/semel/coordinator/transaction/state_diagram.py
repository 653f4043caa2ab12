"""Generates ``docs/design/transaction-states.md`` from the table in ``states``. Its picture is drawn from it too.

Generate it with ``python -m semel.coordinator.transaction.state_diagram > docs/design/transaction-states.md``; a test
fails while it is stale.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from semel.coordinator.transaction.states import LEGAL_SOURCES, TxnState

_OPENING: Final = """\
# The states of a transaction

<!-- Written by `python -m semel.coordinator.transaction.state_diagram`; edit the code, not this file. -->

One record per transactional id and move, in `__transaction_state`. PREPARE is the decision: once its record is
committed the outcome is final, and the only way on is the COMPLETE of the same outcome.

![The states of a transaction, and every move between them](../pictures/transaction-states.svg)
"""

_WHY: Final[Mapping[tuple[TxnState, TxnState], str]] = {
    (TxnState.EMPTY, TxnState.EMPTY): "InitProducerId: a new instance, or the old one starts again",
    (TxnState.COMPLETE_COMMIT, TxnState.EMPTY): "InitProducerId",
    (TxnState.COMPLETE_ABORT, TxnState.EMPTY): "InitProducerId",
    (TxnState.EMPTY, TxnState.ONGOING): "the first partition is added",
    (TxnState.COMPLETE_COMMIT, TxnState.ONGOING): "the first partition is added",
    (TxnState.COMPLETE_ABORT, TxnState.ONGOING): "the first partition is added",
    (TxnState.ONGOING, TxnState.ONGOING): "further partitions are added",
    (TxnState.ONGOING, TxnState.PREPARE_COMMIT): "EndTxn, commit",
    (TxnState.ONGOING, TxnState.PREPARE_ABORT): "EndTxn, abort; the timeout; InitProducerId while it is open",
    (TxnState.EMPTY, TxnState.PREPARE_ABORT): "EndTxn, abort, of V2: without partitions it still bumps the epoch",
    (TxnState.COMPLETE_COMMIT, TxnState.PREPARE_ABORT): "EndTxn, abort, of V2, without partitions",
    (TxnState.COMPLETE_ABORT, TxnState.PREPARE_ABORT): "EndTxn, abort, of V2, without partitions",
    (TxnState.PREPARE_COMMIT, TxnState.COMPLETE_COMMIT): "every marker is written",
    (TxnState.PREPARE_ABORT, TxnState.COMPLETE_ABORT): "every marker is written",
    (TxnState.EMPTY, TxnState.DEAD): "not used for transactional.id.expiration.ms: a tombstone",
    (TxnState.COMPLETE_COMMIT, TxnState.DEAD): "likewise",
    (TxnState.COMPLETE_ABORT, TxnState.DEAD): "likewise",
    (TxnState.ONGOING, TxnState.PREPARE_EPOCH_FENCE): "Kafka's step before an abort of its own; never written",
    (TxnState.PREPARE_EPOCH_FENCE, TxnState.PREPARE_ABORT): "here both are one record",
}

_CLOSING: Final = """
## The producer id and epoch along the way

*Remembered*: who sends the epoch before is taken for its owner, which missed the answer, and is answered again.
*Forgotten*: it is fenced.

| move | transactions V1 | transactions V2 |
|---|---|---|
| InitProducerId without an identity | epoch + 1, forgotten | the same |
| InitProducerId with the present identity | epoch + 1, remembered | the same |
| EndTxn | as before | epoch + 1, remembered; under the next transaction, forgotten |
| aborted for another instance | epoch + 1, forgotten | the same |
| aborted for its owner, which starts again | epoch + 1, remembered | the same |
| aborted after the timeout | epoch + 1, forgotten | epoch + 1, remembered: it may abort, and go on |
| at epoch 32766 | InitProducerId takes a new producer id | EndTxn and the timeout too, with COMPLETE |

Epoch 32767 is for fencing and for markers; no producer is given it.

## Where this differs from Apache Kafka 4.3

A test drives Kafka's coordinator and this one side by side through producers' requests, timeouts and restarts
(`make test-kafka`), and finds these differences and no others.

- An InitProducerId with an old identity never aborts the transaction that the present owner has open; at the last epoch
  it is fenced, where Kafka fails with an unexpected error.
- A repeated InitProducerId is answered without another record, after a failover and at the last epoch too, until the
  producer has begun a transaction. The record therefore holds the last producer epoch where Kafka's fields do not imply
  it, in a tagged field of our own (10000) that Kafka passes over.
- An instance that another one has taken over is fenced from then on, also before the new one has its answer.
- An EndTxn of V2 counts as repeated only from the identity that the recorded one was bumped from. Kafka takes any epoch
  that is lower by one: with clients of both generations under one id, a zombie may get the identity of its successor.
- An abort without partitions writes PREPARE and COMPLETE in one batch.

ListTransactions with a duration shows open transactions only, as KIP-994 words it. Its pattern is a regular expression
of RE2 without flags, word boundaries and named classes.
"""


def render() -> str:
    return _OPENING + _table() + _CLOSING


def _table() -> str:
    rows = [
        f"| {source.kafka_name} | {target.kafka_name} | {_WHY[source, target]} |\n"
        for target, sources in LEGAL_SOURCES.items()
        for source in sorted(sources)
    ]
    return "\n| from | to | when |\n|---|---|---|\n" + "".join(rows)


if __name__ == "__main__":
    print(render(), end="")
