"""Scene 1: the answer to a Produce is lost after the broker has written the records."""

from __future__ import annotations

from typing import Final

from semel.lab.scene import DUPLICATES, IN_LOG, LOST, SENT, Fact, Scene, Verdict, missing, repeated
from semel.lab.stage import PATIENCE_S, Stage

_SENT: Final = ("a", "b", "c")


def _play(stage: Stage) -> Verdict:
    broker = stage.broker()
    stage.topic("orders")
    producer = stage.producer("producer", enable_idempotence=stage.protected)
    stage.step("A producer, a broker, an empty log.")

    producer.send("orders", b"a").result(PATIENCE_S)
    stage.step("Record a is written and acknowledged.")

    lost = broker.faults.drop_response("Produce")
    sending = producer.send("orders", b"b")
    lost.wait(PATIENCE_S)
    stage.step(
        "Record b is written, but the answer is lost with the connection. The producer cannot know which of the two "
        "it was: request or answer."
    )

    sending.result(PATIENCE_S)
    if stage.protected:
        stage.step(
            "It sends the batch again, with the same sequence. The broker finds it among the last five of this "
            "producer, writes nothing, and answers with the offset of the first time."
        )
    else:
        stage.step(
            "It sends the batch again. Without numbers the broker takes it for a new one, and writes it a second time."
        )
    producer.send("orders", b"c").result(PATIENCE_S)
    stage.step("Record c follows.")

    found = stage.log("orders").values()
    return Verdict(
        (
            Fact(SENT, len(_SENT)),
            Fact(IN_LOG, len(found), len(_SENT)),
            Fact(DUPLICATES, repeated(found), 0),
            Fact(LOST, missing(_SENT, found), 0),
        )
    )


LOST_ANSWER: Final = Scene(
    1,
    "lost-answer",
    "A lost answer",
    (
        "A producer that gets no answer must send again, or records may be lost. Watch the sequence on the wire and "
        "the offset in the second answer."
    ),
    "idempotence (enable.idempotence)",
    _play,
)
