"""Writes the input records of a trial."""

from __future__ import annotations

from typing import Final

from semel.blocking import Producer
from semel.testing.prover.records import Records, key_and_value

_TRANSACTIONAL_ID: Final = "semel-prove-input"


def write_input(servers: str, given: Records, partitions: int, *, aborts: bool) -> None:
    """Write the records, spread over the partitions; with ``aborts`` first a copy of them in an aborted transaction."""
    if aborts:
        with Producer(bootstrap_servers=servers, transactional_id=_TRANSACTIONAL_ID) as producer:
            producer.begin()
            _send(producer, given, partitions)
            producer.flush()  # Without it the abort would drop the records before they are sent.
            producer.abort()
    with Producer(bootstrap_servers=servers) as producer:
        _send(producer, given, partitions)


def _send(producer: Producer, given: Records, partitions: int) -> None:
    for topic, records in given.items():
        for number, record in enumerate(records):
            key, value = key_and_value(record)
            producer.send(topic, value, key, partition=number % partitions)
