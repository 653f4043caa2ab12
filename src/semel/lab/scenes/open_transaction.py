"""Scene 5: one transaction that is not ended keeps all readers of its partition waiting."""

from __future__ import annotations

from typing import Final

from semel.lab.log_view import Kind
from semel.lab.scene import Fact, Scene, Verdict
from semel.lab.stage import PATIENCE_S, Stage

_UNDECIDED: Final = "a"
_PLAIN: Final = ("b", "c")


def _play(stage: Stage) -> Verdict:
    stage.broker()
    stage.topic("orders")
    isolation = "read_committed" if stage.protected else "read_uncommitted"
    read: list[str] = []
    stage.watch("reader", lambda: (isolation, f"has read {', '.join(read) or 'nothing'}"))
    slow = stage.producer("slow", transactional_id="slow")
    quick = stage.producer("quick")

    slow.begin()
    slow.send("orders", _UNDECIDED.encode()).result(PATIENCE_S)
    stage.step(
        "A transaction is open on the partition: its first record is at offset 0, and so is the last stable offset "
        "(LSO)."
    )

    for value in _PLAIN:
        quick.send("orders", value.encode()).result(PATIENCE_S)
    read[:] = stage.read("orders", isolation)
    while_open = list(read)
    held_up = len([value for value in _PLAIN if value not in read])
    stage.step(
        "Another producer writes b and c. A reader with {isolation} sees {seen}.",
        isolation=isolation,
        seen=", ".join(read) or "nothing",
    )

    slow.abort()
    stage.wait_for("the marker", lambda: stage.log("orders").markers == [Kind.ABORT])
    read[:] = stage.read("orders", isolation)
    stage.step("The transaction is aborted: a marker is written, the LSO moves to the end, and readers go on.")
    at_the_end = stage.read("orders")
    return Verdict(
        (
            Fact("records read before they were decided", while_open.count(_UNDECIDED), 0),
            Fact("records read that were then aborted", len(set(while_open) - set(at_the_end)), 0),
            Fact("records held up while it was open", held_up),
            Fact(
                "records that read_committed sees at the end",
                ", ".join(at_the_end),
                ", ".join(_PLAIN),
            ),
        )
    )


OPEN_TRANSACTION: Final = Scene(
    5,
    "open-transaction",
    "An open transaction holds the last stable offset",
    (
        "read_committed readers go no further than the first open transaction, also where the records behind it "
        "belong to others. That is the price of never reading what may be taken back."
    ),
    "isolation.level=read_committed",
    _play,
)
