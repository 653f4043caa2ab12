"""Scene 4: a second instance takes over while the first is only slow; both want to commit."""

from __future__ import annotations

from typing import Final

from semel.errors import SemelError
from semel.lab.scene import DUPLICATES, LOST, SEEN, Fact, Scene, Verdict, missing, repeated
from semel.lab.stage import PATIENCE_S, Stage

_WORK: Final = ("invoice-1", "invoice-2")


def _play(stage: Stage) -> Verdict:
    stage.broker()
    stage.topic("invoices")
    ids = ("billing", "billing") if stage.protected else ("billing-a", "billing-b")
    old = stage.producer("instance-a", transactional_id=ids[0])
    old.begin()
    old.send("invoices", _WORK[0].encode()).result(PATIENCE_S)
    stage.step(
        "Instance a begins a transaction and writes invoice-1. Then it stops: a long pause, or a network that is gone."
    )

    new = stage.producer("instance-b", transactional_id=ids[1])
    if stage.protected:
        stage.step(
            "Instance b is started in its place, under the same transactional id. InitProducerId gives it the next "
            "epoch, and aborts what a has left open."
        )
    else:
        stage.step("Instance b is started in its place, under an id of its own. To the broker it is another producer.")

    with new.transaction():
        for value in _WORK:
            new.send("invoices", value.encode())
    stage.step("Instance b does the work again, and commits.")

    refusals = 0
    try:
        old.send("invoices", _WORK[1].encode()).result(PATIENCE_S)
        old.commit()
    except SemelError:
        refusals = 1
    if refusals:
        stage.step(
            "Instance a wakes up and goes on under its old epoch: it is refused. It is a zombie, and can do no harm."
        )
    else:
        stage.step("Instance a wakes up, writes the rest and commits. Both commits succeed.")
    found = stage.read("invoices")
    return Verdict(
        (
            Fact(SEEN, len(found), len(_WORK)),
            Fact(DUPLICATES, repeated(found), 0),
            Fact(LOST, missing(_WORK, found), 0),
            Fact("commits of the zombie that were refused", refusals, 1),
        )
    )


FENCING: Final = Scene(
    4,
    "fencing",
    "Two producers, one id: fencing",
    (
        "A program that seems dead may only be slow. Its successor has the same transactional id and a higher epoch;"
        " whatever carries the old epoch is refused."
    ),
    "one transactional.id for both instances",
    _play,
)
