"""Scene 10: the same log, read with read_committed and with read_uncommitted."""

from __future__ import annotations

from typing import Final

from semel.lab.scene import LOST, Fact, Scene, Verdict, missing
from semel.lab.stage import PATIENCE_S, Stage

_COMMITTED: Final = ("a", "b")


def _play(stage: Stage) -> Verdict:
    stage.broker()
    stage.topic("orders")
    levels = ("read_committed", "read_uncommitted")
    seen: dict[str, list[str]] = {level: [] for level in levels}
    for level in levels:
        stage.watch(level, lambda level=level: (f"sees {', '.join(seen[level]) or 'nothing'}",))  # type: ignore[misc]

    def look() -> None:
        for level in levels:
            seen[level] = stage.read("orders", level)

    producer = stage.producer("writer", transactional_id="writer")
    with producer.transaction():
        for value in _COMMITTED:
            producer.send("orders", value.encode())
    stage.wait_for("the marker", lambda: len(stage.log("orders").markers) == 1)
    look()
    stage.step("A transaction with a and b is committed. Both readers see it.")

    producer.begin()
    producer.send("orders", b"x").result(PATIENCE_S)
    producer.abort()
    stage.wait_for("the marker", lambda: len(stage.log("orders").markers) == 2)
    look()
    stage.step(
        "A transaction with x is aborted. Its record stays in the log; the answer to a read_committed Fetch names it"
        " as aborted, and the consumer leaves it out."
    )

    producer.begin()
    producer.send("orders", b"y").result(PATIENCE_S)
    look()
    stage.step("A transaction with y is open. read_committed stops before it; read_uncommitted does not.")
    level = levels[0] if stage.protected else levels[1]
    found = seen[level]
    return Verdict(
        (
            Fact("isolation level", level),
            Fact(
                "records seen that were not committed",
                len([value for value in found if value not in _COMMITTED]),
                0,
            ),
            Fact(LOST, missing(_COMMITTED, found), 0),
        )
    )


ISOLATION_LEVELS: Final = Scene(
    10,
    "isolation-levels",
    "read_committed beside read_uncommitted",
    (
        "Both levels read the same log with the same requests. What differs is how far they may read, and what they "
        "leave out."
    ),
    "isolation.level=read_committed",
    _play,
)
