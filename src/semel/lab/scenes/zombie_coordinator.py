"""Scene 12: a marker of a coordinator that was replaced arrives late, in the middle of the next transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Final

from semel.lab.scene import LOST, Fact, Scene, Verdict
from semel.lab.stage import PATIENCE_S, Stage
from semel.log.producers.producer_state import ProducerStates
from semel.testing.tracing.wire_trace import WireEventKind

_ID: Final = "transfers"
_MARKERS: Final = "WriteTxnMarkers"


def _play(stage: Stage) -> Verdict:
    with nullcontext() if stage.protected else _unchecked_markers():
        return _play_with_zombie(stage)


def _play_with_zombie(stage: Stage) -> Verdict:
    cluster = stage.cluster(transaction_state_log_num_partitions=3, default_replication_factor=1)
    producer = stage.producer("producer", transactional_id=_ID)
    first = cluster.transaction_coordinator(_ID)
    assert first is not None
    leader = next(node_id for node_id in cluster.brokers if node_id != first)
    stage.topic("orders", assignments={0: [leader]})
    stage.watch("cluster", lambda: (f"broker {leader} leads orders:0",))

    held = cluster.brokers[leader].faults.hold(_MARKERS)
    producer.begin()
    producer.send("orders", b"a").result(PATIENCE_S)
    producer.commit()
    held.wait(PATIENCE_S)
    stage.step(
        "A transaction with a is committed. Its coordinator, broker {first}, sends the marker, and the network holds "
        "it.",
        first=first,
    )

    cluster.expire_session(first)
    stage.wait_for("a marker of the next coordinator", lambda: len(stage.log("orders").markers) == 1)
    stage.step(
        "Broker {first} is silent for too long, and another broker takes over under the next coordinator epoch. It "
        "finds the decision in its replica of the log, and writes the marker.",
        first=first,
    )

    producer.begin()
    producer.send("orders", b"b").result(PATIENCE_S)
    stage.step("The producer begins its next transaction, and writes b.")

    seen_before = len(_answers(stage))
    held.release()
    stage.wait_for("an answer to the marker that comes late", lambda: len(_answers(stage)) > seen_before)
    late = _answers(stage)[seen_before]
    read = stage.read("orders")
    if late:
        stage.step(
            "Now the marker of broker {first} arrives. It belongs to an epoch that is over, and is refused ({error}).",
            first=first,
            error=late[0],
        )
    else:
        stage.step(
            "Now the marker of broker {first} arrives, and is taken: it ends the transaction that is open now. Readers "
            "see b, which was never committed.",
            first=first,
        )
    return Verdict(
        (
            Fact("markers of the zombie that were refused", len(late), 1),
            Fact("records seen that were not committed", len([value for value in read if value != "a"]), 0),
            Fact(LOST, int("a" not in read), 0),
        )
    )


def _answers(stage: Stage) -> list[tuple[str, ...]]:
    """The errors of each response to a WriteTxnMarkers request."""
    return [event.errors for event in stage.events(_MARKERS) if event.kind is WireEventKind.ANSWER]


@contextmanager
def _unchecked_markers() -> Iterator[None]:
    """A context in which no broker of this process checks markers. There is no setting for that."""
    sound = ProducerStates.check_marker

    def check_marker(self: ProducerStates, *rest: Any, **more: Any) -> Any:
        return None

    ProducerStates.check_marker = check_marker  # type: ignore[method-assign]
    try:
        yield
    finally:
        ProducerStates.check_marker = sound  # type: ignore[method-assign]


ZOMBIE_COORDINATOR: Final = Scene(
    12,
    "zombie-coordinator",
    "A zombie coordinator",
    (
        "A coordinator that was replaced may still have messages on the wire. Partitions remember the epochs of the "
        "last marker, of its producer and of its coordinator, and refuse what is older."
    ),
    "the check of epochs in markers",
    _play,
)
