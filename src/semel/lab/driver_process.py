"""The driver of the scene with the micro-batches, as a process of its own, so that it can be killed.

    python -m semel.lab.driver_process SERVERS FIRST LAST transaction|plain

It does what a Spark driver does for the batches of a pipeline: initialize the transactional id, read the committed
offsets of the group, and for each batch decide, write, send offsets, commit; ``plain`` writes without a transaction.
It prints the number of the batch with its decision (``runs`` or ``skips``), with each step once that is done, and with
``done``, and waits for a line after each.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

from semel.blocking import Admin, Producer
from semel.client.values import OffsetAndMetadata
from semel.spark.decision import Batch, Note, Run, SourcePartition, decide
from semel.types import TopicPartition

GROUP: Final = "totals"
INPUT: Final = TopicPartition("orders", 0)
OUTPUT: Final = "totals"
NO_BATCH: Final = str(Note("", -1, begin=0))
"""The note beside the offset of a group whose pipeline has not run."""
STEPS: Final = ("planned", "written", "written, and its offsets are sent", "committed")
RUNS, SKIPS, DONE = "runs", "skips", "done"

_PARTITION: Final = SourcePartition(GROUP, INPUT)
_QUERY: Final = "query-1"
_ID: Final = "totals-pipeline"
_CLIENT: Final = "driver"


def main(servers: str, first: str, last: str, kind: str) -> int:
    with ExitStack() as stack:
        admin = stack.enter_context(Admin(bootstrap_servers=servers, client_id=_CLIENT))
        producer = None
        if kind == "transaction":
            producer = stack.enter_context(Producer(bootstrap_servers=servers, client_id=_CLIENT, transactional_id=_ID))
        for number in range(int(first), int(last) + 1):
            batch = Batch(_QUERY, number, {_PARTITION: number}, {_PARTITION: number + 1})
            listed = admin.groups.list_offsets(GROUP, require_stable=True)
            decision = decide(batch, {SourcePartition(GROUP, partition): at for partition, at in listed.items()})
            is_run = isinstance(decision, Run)
            _say(number, RUNS if is_run else SKIPS)
            run = _plain(servers, admin, number) if producer is None else _transaction(producer, number)
            for step in run if is_run else ():
                _say(number, step)
            _say(number, DONE)
    return 0


def value_of(number: int) -> str:
    """The value of the record that a batch writes."""
    return f"batch-{number}"


def _say(number: int, what: str) -> None:
    print(number, what, flush=True)
    sys.stdin.readline()


def _transaction(producer: Producer, number: int) -> Iterator[str]:
    planned, written, offsets_sent, committed = STEPS
    producer.begin()
    yield planned
    producer.send(OUTPUT, value_of(number).encode()).result()
    yield written
    producer.send_offsets(_end_of(number), GROUP)
    yield offsets_sent
    producer.commit()
    yield committed


def _plain(servers: str, admin: Admin, number: int) -> Iterator[str]:
    planned, written, offsets_sent, committed = STEPS
    yield planned
    # A producer for each batch: one that stays open requests its producer id at any time, before the kill or after it.
    with Producer(bootstrap_servers=servers, client_id=_CLIENT) as producer:
        producer.send(OUTPUT, value_of(number).encode()).result()
    yield written
    admin.groups.alter_offsets(GROUP, _end_of(number)).all()
    yield offsets_sent
    yield committed


def _end_of(number: int) -> dict[TopicPartition, OffsetAndMetadata]:
    return {INPUT: OffsetAndMetadata(number + 1, str(Note(_QUERY, number)))}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
