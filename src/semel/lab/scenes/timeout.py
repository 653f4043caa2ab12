"""Scene 8: a producer hangs with an open transaction; after ``transaction.timeout.ms`` the coordinator aborts it."""

from __future__ import annotations

from typing import Final

from semel.errors import SemelError
from semel.lab.scene import Fact, Scene, Verdict
from semel.lab.stage import PATIENCE_S, Stage

_TIMEOUT_MS: Final = 10_000
_NO_TIMEOUT_MS: Final = 15 * 60_000
_PASSED_S: Final = 60
_HUNG: Final = "a"
_BEHIND: Final = ("b", "c")


def _play(stage: Stage) -> Verdict:
    broker = stage.broker()
    stage.topic("orders")
    limit_ms = _TIMEOUT_MS if stage.protected else _NO_TIMEOUT_MS
    hanging = stage.producer("hanging", transactional_id="hanging", transaction_timeout_ms=limit_ms)
    quick = stage.producer("quick")
    hanging.begin()
    hanging.send("orders", _HUNG.encode()).result(PATIENCE_S)
    for value in _BEHIND:
        quick.send("orders", value.encode()).result(PATIENCE_S)
    stage.step(
        "A producer opens a transaction, with transaction.timeout.ms={limit_ms}, and hangs. Others write behind it.",
        limit_ms=limit_ms,
    )

    broker.clock.advance(seconds=_PASSED_S)
    if stage.protected:
        stage.wait_for("the coordinator to end it", lambda: bool(stage.log("orders").markers))
        stage.step(
            "{seconds} seconds pass on the broker. The coordinator aborts the transaction by itself, under the next "
            "epoch, and the last stable offset moves.",
            seconds=_PASSED_S,
        )
    else:
        stage.step(
            "{seconds} seconds pass on the broker. The transaction may stay open for a quarter of an hour: readers "
            "wait.",
            seconds=_PASSED_S,
        )
    found = stage.read("orders")
    refused = 0
    try:
        hanging.commit()
    except SemelError:
        refused = 1
    if refused:
        stage.step("The producer wakes up and commits: it is refused. What was aborted stays aborted.")
    else:
        stage.step("The producer wakes up and commits, and only now readers can go on.")
    return Verdict(
        (
            Fact(
                "records still held up after a minute",
                len([value for value in _BEHIND if value not in found]),
                0,
            ),
            Fact("late commits that were refused", refused, 1 if stage.protected else None),
            Fact("records of the hanging transaction that readers see", found.count(_HUNG), 0),
        )
    )


TIMEOUT: Final = Scene(
    8,
    "timeout",
    "A timeout ends what hangs",
    (
        "A producer that hangs or has died cannot hold readers up for ever: after transaction.timeout.ms its "
        "coordinator aborts for it."
    ),
    "a short transaction.timeout.ms",
    _play,
)
