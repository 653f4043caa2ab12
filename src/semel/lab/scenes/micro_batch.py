"""Scene 11: a Spark micro-batch is killed at each of its steps, and run again.

There is no Spark in it: a start takes longer than all other scenes together. The steps, the note beside the committed
offset and the decision whether a batch has to run again are those of ``semel.spark``; ``semel prove`` and ``make demo``
kill real Spark drivers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from semel.blocking import Producer
from semel.client.values import OffsetAndMetadata
from semel.lab.scene import DUPLICATES, LOST, SEEN, Fact, Scene, Verdict, missing, repeated
from semel.lab.stage import PATIENCE_S, Stage
from semel.spark.decision import Batch, Note, Place, Run, decide
from semel.types import TopicPartition

_ORDERS: Final = TopicPartition("orders", 0)
_PLACE: Final = Place("totals", _ORDERS)
_QUERY: Final = "query-1"
_ID: Final = "totals-pipeline"
_SENT: Final = "written, and its offsets are sent"
_STEPS: Final = ("planned", "written", _SENT, "committed")
"""After each of them the driver is killed once."""


_RUN_AGAIN: Final = (
    "The driver is killed when batch {number} is {step}. The next driver asks where the group is: the batch is not "
    "committed, and runs again."
)
_SKIPPED: Final = (
    "The driver is killed when batch {number} is {step}. The next driver asks where the group is: the batch is "
    "committed, and is skipped."
)


class _Killed(Exception):
    """The driver is dead."""


def _play(stage: Stage) -> Verdict:
    stage.broker()
    stage.topic("orders", shown=False)
    stage.topic("totals")
    driver = _Driver(stage)
    driver.begin_group()
    wanted: list[str] = []
    decisions: list[str] = []
    for number, step in enumerate(_STEPS):
        value = f"batch-{number}"
        wanted.append(value)
        with suppress(_Killed):
            driver.run(number, value, killed_after=step)
        decisions.append(driver.run(number, value, killed_after=None))
        text = _SKIPPED if decisions[-1] == "skips" else _RUN_AGAIN
        stage.step(text, number=number, step=step)
    found = stage.read("totals")
    return Verdict(
        (
            Fact("kills", len(_STEPS)),
            Fact(SEEN, len(found), len(wanted)),
            Fact(DUPLICATES, repeated(found), 0),
            Fact(LOST, missing(wanted, found), 0),
            Fact("batches run again", decisions.count("runs")),
            Fact("batches skipped, because they were committed", decisions.count("skips")),
        )
    )


class _Driver:
    """A driver of Spark, as far as the pipeline is concerned; each call of ``run`` is a life of its own."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._lives = 0

    def begin_group(self) -> None:
        self._stage.admin.groups.alter_offsets(
            _PLACE.group_id, {_ORDERS: OffsetAndMetadata(0, str(Note("", -1, begin=0)))}
        ).all()

    def run(self, number: int, value: str, *, killed_after: str | None) -> str:
        """Take over, decide, write, send offsets, commit. Returns what was decided."""
        self._lives += 1
        settings = {"transactional_id": _ID} if self._stage.protected else {}
        producer = self._stage.producer("driver", **settings)
        batch = Batch(_QUERY, number, {_PLACE: number}, {_PLACE: number + 1})
        if not isinstance(decide(batch, self._committed()), Run):
            return "skips"
        for step in self._steps(producer, batch, value):
            if step == killed_after:
                raise _Killed  # The producer is left as it is: its transaction is open, or it is not.
        return "runs"

    def _steps(self, producer: Producer, batch: Batch, value: str) -> Iterator[str]:
        end = {_ORDERS: OffsetAndMetadata(batch.end[_PLACE], str(Note(_QUERY, batch.batch_id)))}
        if not self._stage.protected:
            yield "planned"
            producer.send("totals", value.encode()).result(PATIENCE_S)
            yield "written"
            self._stage.admin.groups.alter_offsets(_PLACE.group_id, end).all()
            yield _SENT
            yield "committed"
            return
        producer.begin()
        yield "planned"
        producer.send("totals", value.encode()).result(PATIENCE_S)
        yield "written"
        producer.send_offsets(end, _PLACE.group_id)
        yield _SENT
        producer.commit()
        yield "committed"

    def _committed(self) -> dict[Place, OffsetAndMetadata]:
        """Where the group is, once no transaction is about to change that."""
        listed = self._stage.admin.groups.list_offsets(_PLACE.group_id, require_stable=True)
        return {Place(_PLACE.group_id, partition): at for partition, at in listed.items()}


MICRO_BATCH: Final = Scene(
    11,
    "micro-batch",
    "A Spark micro-batch, killed at each step",
    (
        "A pipeline writes the output of a micro-batch and the offsets that it has read in one transaction, with a "
        "note which batch it was. Whenever the driver dies, the next one can tell whether the batch has to run again."
    ),
    "output, offsets and note in one transaction",
    _play,
)
