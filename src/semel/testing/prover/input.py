"""The input of a trial."""

from __future__ import annotations

from typing import Final

from semel.blocking import Producer
from semel.testing.prover.records import Records, key_and_value

_TRANSACTIONAL_ID: Final = "semel-prove-input"


def write_input(servers: str, given: Records, partitions: int, *, aborts: bool) -> None:
    """The records, spread over the partitions; ``aborts``: and before them the same in an aborted transaction."""
    if aborts:
        with Producer(bootstrap_servers=servers, transactional_id=_TRANSACTIONAL_ID) as producer:
            producer.begin()
            _send(producer, given, partitions)
            producer.flush()  # Else they would be dropped, and not aborted.
            producer.abort()
    with Producer(bootstrap_servers=servers) as producer:
        _send(producer, given, partitions)


def _send(producer: Producer, given: Records, partitions: int) -> None:
    for topic, records in given.items():
        for number, record in enumerate(records):
            key, value = key_and_value(record)
            producer.send(topic, value, key, partition=number % partitions)
