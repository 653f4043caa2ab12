"""The proof for users' applications: it passes one that is exactly-once and catches those that are not."""

from __future__ import annotations

import pytest

from semel import OffsetAndMetadata, blocking
from semel.testing import exactly_once
from semel.types import TopicPartition

GIVEN = {"orders": [str(number).encode() for number in range(20)]}
EXPECT = {"doubled": [str(2 * number).encode() for number in range(20)]}
PARTITIONS = 2
GROUP = "doubling"


def _copy(servers: str, *, transactional: bool, offsets_in_transaction: bool = True) -> None:
    """Consume-transform-produce, five records at a time, until the input is used up."""
    identity = {"transactional_id": "doubling"} if transactional else {}
    with (
        blocking.Producer(bootstrap_servers=servers, **identity) as producer,
        blocking.Consumer(
            bootstrap_servers=servers,
            group_id=GROUP,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        ) as consumer,
    ):
        partitions = [TopicPartition("orders", index) for index in range(PARTITIONS)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            records = consumer.poll(200, max_records=5)
            if not records:
                continue
            if not transactional:
                for record in records:
                    assert record.value is not None
                    producer.send("doubled", str(2 * int(record.value)).encode())
                producer.flush()
                continue
            with producer.transaction():
                for record in records:
                    assert record.value is not None
                    producer.send("doubled", str(2 * int(record.value)).encode())
                if offsets_in_transaction:
                    positions = {partition: OffsetAndMetadata(consumer.position(partition)) for partition in partitions}
                    producer.send_offsets(positions, GROUP)


def test_a_transactional_copy_is_proven_under_every_scenario() -> None:
    outcomes = exactly_once.prove(lambda servers: _copy(servers, transactional=True), given=GIVEN, expect=EXPECT)
    struck = [outcome.scenario for outcome in outcomes if outcome.struck]
    assert len(struck) >= len(exactly_once.SCENARIOS) - 1, outcomes  # V2 has no AddPartitionsToTxn.


def test_a_copy_that_commits_its_offsets_on_the_side_is_caught() -> None:
    """It writes everything again in its second life: the offsets were not a part of the transaction."""
    dies = iter([True])

    def application(servers: str) -> None:
        _copy(servers, transactional=True, offsets_in_transaction=False)
        if next(dies, False):
            raise ConnectionError("killed")

    with pytest.raises(AssertionError, match=r"Too many: b'\d+' x 1"):
        exactly_once.prove(application, given=GIVEN, expect=EXPECT, scenarios=exactly_once.SCENARIOS[:1])


def test_an_application_that_loses_a_record_is_caught() -> None:
    with pytest.raises(AssertionError, match="Missing: b'77' x 1"):
        exactly_once.prove(
            lambda servers: _copy(servers, transactional=True),
            given=GIVEN,
            expect={"doubled": [*EXPECT["doubled"], b"77"]},
            scenarios=exactly_once.SCENARIOS[:1],
        )


def test_an_application_that_never_talks_to_the_broker_proves_nothing() -> None:
    with pytest.raises(AssertionError, match="no fault struck"):
        exactly_once.prove(lambda servers: None, given=GIVEN, expect={}, scenarios=exactly_once.SCENARIOS[6:7])


def test_an_application_that_dies_every_time_is_given_up() -> None:
    def application(servers: str) -> None:
        raise RuntimeError("no coffee")

    with pytest.raises(AssertionError, match="died 10 times, the last time of RuntimeError"):
        exactly_once.prove(application, given=GIVEN, expect=EXPECT, scenarios=exactly_once.SCENARIOS[:1])
