"""Scene 2: five batches are in flight, their responses are lost, and all of them are sent again."""

from __future__ import annotations

from typing import Final

from semel.lab.scene import DUPLICATES, IN_LOG, LOST, SENT, Fact, Scene, Verdict, missing, repeated
from semel.lab.stage import PATIENCE_S, Stage
from semel.types import TopicPartition

_SENT: Final = ("a", "b", "c", "d", "e", "f", "g")
_ORDERS: Final = TopicPartition("orders", 0)


def _play(stage: Stage) -> Verdict:
    broker = stage.broker()
    stage.topic("orders")
    numbered = {"enable_idempotence": True} if stage.protected else {"enable_idempotence": False, "retries": 10}
    in_flight_max = 5 if stage.protected else 6
    producer = stage.producer("producer", batch_size=1, max_in_flight_requests_per_connection=in_flight_max, **numbered)
    first, *rest = _SENT
    producer.send("orders", first.encode()).result(PATIENCE_S)
    stage.step("Record a is written: the broker knows the producer now.")

    held = broker.faults.hold("Produce")
    broker.faults.drop_response("Produce")
    futures = [producer.send("orders", value.encode()) for value in rest]
    held.wait(PATIENCE_S)
    stage.wait_for("the wire to be full", lambda: producer.state.partitions[_ORDERS].on_wire == in_flight_max)
    seen = producer.state.partitions[_ORDERS]
    stage.step(
        "Six batches b to g are sent, each in a request of its own, and the network holds them. {on_wire} are on the"
        " wire, {waiting} waits.",
        on_wire=seen.on_wire,
        waiting=seen.waiting,
    )

    held.release()
    for future in futures:
        future.result(PATIENCE_S)
    again = repeated(
        str(batch["sequence"])
        for event in stage.events("Produce", "producer")
        for batch in event.fields.get("batches", ())
        if "sequence" in batch
    )
    if stage.protected:
        stage.step(
            "They reach the broker, which writes all five. Then the connection breaks, and only the first answer "
            "arrives. The others are sent again: the broker remembers five batches of a producer, so it recognises "
            "each of them. The sixth goes out behind them."
        )
    else:
        stage.step(
            "They reach the broker, which writes all six. Then the connection breaks, and only the first answer "
            "arrives. The others are sent again, and are written again."
        )
    found = stage.log("orders").values()
    facts = (
        Fact(SENT, len(_SENT)),
        Fact("batches on the wire at once", seen.on_wire, 5),
        Fact(IN_LOG, len(found), len(_SENT)),
        Fact(DUPLICATES, repeated(found), 0),
        Fact(LOST, missing(_SENT, found), 0),
    )
    resent = (Fact("batches sent again", again),) if stage.protected else ()
    return Verdict((*facts, *resent))


WINDOW_OF_FIVE: Final = Scene(
    2,
    "window-of-five",
    "The window of five, and the sixth",
    (
        "A broker remembers the last five batches of each producer, and a producer has at most five on the wire. So "
        "all that can come again is recognised. The sixth waits."
    ),
    "sequences, and five in flight at most",
    _play,
)
