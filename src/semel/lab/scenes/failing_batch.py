"""Scene 3: of five batches on the wire the second is refused for a moment."""

from __future__ import annotations

from typing import Final

from semel.lab.scene import DUPLICATES, IN_LOG, SENT, Fact, Scene, Verdict, inversions, repeated
from semel.lab.stage import PATIENCE_S, Stage
from semel.types import TopicPartition

_SENT: Final = ("0", "1", "2", "3", "4", "5")
_ORDERS: Final = TopicPartition("orders", 0)


def _play(stage: Stage) -> Verdict:
    broker = stage.broker()
    stage.topic("orders")
    producer = stage.producer("producer", batch_size=1, enable_idempotence=stage.protected)
    first, *rest = _SENT
    producer.send("orders", first.encode()).result(PATIENCE_S)
    stage.step("Record 0 is written.")

    held = broker.faults.hold("Produce")
    broker.faults.fail("Produce", "NOT_ENOUGH_REPLICAS")
    futures = [producer.send("orders", value.encode()) for value in rest]
    held.wait(PATIENCE_S)
    stage.wait_for("five batches to be on the wire", lambda: producer.state.partitions[_ORDERS].on_wire == 5)
    stage.step("Batches 1 to 5 are on the wire at once.")

    held.release()
    for future in futures:
        future.result(PATIENCE_S)
    if stage.protected:
        stage.step(
            "Batch 2 is refused (NOT_ENOUGH_REPLICAS). Batches 3 to 5 have sequences that leave a gap, so the broker"
            " refuses them, too (OUT_OF_ORDER_SEQUENCE_NUMBER). The producer sends all of them again, from 2 on."
        )
    else:
        stage.step(
            "Batch 2 is refused (NOT_ENOUGH_REPLICAS), batches 3 to 5 are written. Batch 2 is sent again, and comes "
            "last."
        )
    found = stage.log("orders").values()
    refused = sum("OUT_OF_ORDER_SEQUENCE_NUMBER" in event.errors for event in stage.events("Produce"))
    return Verdict(
        (
            Fact(SENT, len(_SENT)),
            Fact(IN_LOG, len(found), len(_SENT)),
            Fact("pairs in the wrong order", inversions(_SENT, found), 0),
            Fact(DUPLICATES, repeated(found), 0),
            Fact("batches refused for a gap", refused),
        )
    )


FAILING_BATCH: Final = Scene(
    3,
    "failing-batch",
    "Five batches, the second fails: order is kept",
    (
        "With several requests on the wire one that fails is overtaken by those behind it. Sequences let the broker "
        "see the gap."
    ),
    "sequences without gaps (enable.idempotence)",
    _play,
)
