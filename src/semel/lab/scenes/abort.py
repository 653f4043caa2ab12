"""Scene 6: a program fails in the middle of a transaction; neither its records nor its offsets count."""

from __future__ import annotations

from typing import Final

from semel.blocking import Consumer, Producer
from semel.client.values import OffsetAndMetadata
from semel.lab.scene import DUPLICATES, LOST, SEEN, Fact, Scene, Verdict, missing, repeated
from semel.lab.stage import PATIENCE_S, Stage
from semel.types import TopicPartition

_INPUT: Final = ("1", "2", "3")
_WANTED: Final = tuple(f"done-{value}" for value in _INPUT)
_ORDERS: Final = TopicPartition("orders", 0)


def _play(stage: Stage) -> Verdict:
    stage.broker()
    stage.topic("orders", shown=False)
    stage.topic("invoices")
    feeder = stage.producer("feeder")
    for value in _INPUT:
        feeder.send("orders", value.encode()).result(PATIENCE_S)
    feeder.close()
    stage.forget("feeder")
    stage.skip()
    consumer = stage.consumer("program", group_id="billing", enable_auto_commit=False)
    settings = {"transactional_id": "billing"} if stage.protected else {}
    producer = stage.producer("writer", **settings)
    consumer.subscribe(["orders"])
    stage.step("A program reads orders 1 to 3, and writes an invoice for each.")

    _work(stage, consumer, producer)
    if stage.protected:
        stage.step("It has written its invoices, and sent its offsets within the transaction. Then it fails.")
        producer.abort()
    else:
        stage.step("It has written its invoices. Then it fails, before it has committed its offsets.")
    consumer.rewind()
    after_failure = consumer.committed([_ORDERS])[_ORDERS]
    if stage.protected:
        stage.step(
            "The transaction is aborted: a marker says that its records do not count, its offsets are dropped, and the "
            "consumer is back where it was."
        )
    else:
        stage.step("What it has written stays. The consumer is back where it was.")

    _work(stage, consumer, producer)
    if stage.protected:
        producer.commit()
    else:
        consumer.commit()
    stage.step("The same orders are read again, and this time the program gets to the end.")
    stage.wait_for("offsets that are stable", lambda: consumer.committed([_ORDERS])[_ORDERS] is not None)
    found, at_the_end = stage.read("invoices"), consumer.committed([_ORDERS])[_ORDERS]
    return Verdict(
        (
            Fact(SEEN, len(found), len(_WANTED)),
            Fact(DUPLICATES, repeated(found), 0),
            Fact(LOST, missing(_WANTED, found), 0),
            Fact("committed offset after the failure", _offset(after_failure), 0),
            Fact("committed offset at the end", _offset(at_the_end), len(_INPUT)),
        )
    )


def _work(stage: Stage, consumer: Consumer, producer: Producer) -> None:
    """Read all orders and write an invoice for each; with the protection in one transaction with the offsets."""
    if stage.protected:
        producer.begin()

    def is_done() -> bool:
        for record in consumer.poll(50):
            producer.send("invoices", b"done-" + (record.value or b""))
        positions = consumer.positions()
        return _ORDERS in positions and positions[_ORDERS].offset >= len(_INPUT)

    stage.wait_for("the input", is_done)
    producer.flush()
    if stage.protected:
        producer.send_offsets(consumer.positions(), consumer.group_metadata())


def _offset(committed: OffsetAndMetadata | None) -> int:
    return 0 if committed is None else committed.offset


ABORT: Final = Scene(
    6,
    "abort",
    "Abort: records and offsets come back",
    "What a program writes and how far it has read are one transaction: both count, or neither does.",
    "output and offsets in one transaction",
    _play,
)
