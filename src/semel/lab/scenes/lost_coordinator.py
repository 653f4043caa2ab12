"""Scene 7: the coordinator dies when a commit is decided and no marker has been written.

The coordinator is a process that is really killed; the two other brokers are in this process.
"""

from __future__ import annotations

from typing import Final

from semel.lab.killable_broker import KillableBroker
from semel.lab.scene import LOST, SEEN, Fact, Scene, Verdict, missing
from semel.lab.stage import PATIENCE_S, Stage
from semel.types import TRANSACTION_STATE_TOPIC

_SENT: Final = ("a", "b")
_ID: Final = "transfers"
_LEADER: Final = 2
"""Of the partition that is written to: neither the first coordinator nor the second, so markers pass on the wire."""


def _play(stage: Stage) -> Verdict:
    cluster = stage.cluster(brokers=2)
    first = stage.killable_broker(cluster)
    replicas = [first.node_id, *cluster.brokers] if stage.protected else [first.node_id]
    stage.topic(TRANSACTION_STATE_TOPIC, assignments={0: replicas}, shown=False)
    stage.topic("orders", assignments={0: [_LEADER]})
    stage.show("WriteTxnMarkers")
    producer = stage.producer("producer", transactional_id=_ID)
    stage.watch("cluster", lambda: _brokers(stage, first))
    stage.step(
        "Broker {coordinator}, a process of its own, coordinates the transactions of this producer, broker {leader} "
        "has the partition. The decisions of the coordinator are in a log with {copies} replicas.",
        coordinator=first.node_id,
        leader=_LEADER,
        copies=len(replicas),
    )

    held = cluster.brokers[_LEADER].faults.hold("WriteTxnMarkers")
    producer.begin()
    for value in _SENT:
        producer.send("orders", value.encode())
    producer.commit()
    held.wait(PATIENCE_S)
    stage.step(
        "The transaction is committed: PREPARE_COMMIT is in the log of the coordinator, and the producer has its "
        "answer. The marker is on its way, and the network holds it. Readers see nothing yet."
    )

    first.kill()
    held.release()
    if stage.protected:
        stage.wait_for("a coordinator that finishes it", lambda: bool(stage.log("orders").markers))
        stage.step(
            "The process of broker {coordinator} is killed with SIGKILL. Broker {successor} has a replica of the log, "
            "finds PREPARE_COMMIT without COMPLETE, and writes the markers.",
            coordinator=first.node_id,
            successor=_coordinator(stage),
        )
    else:
        stage.step(
            "The process of broker {coordinator} is killed with SIGKILL, and with it the only copy of the decision. "
            "The producer was told that its transaction is committed; no broker that is left knows of it.",
            coordinator=first.node_id,
        )
    found = stage.read("orders")
    return Verdict(
        (
            Fact("kills", int(first.was_killed), 1),
            Fact("replicas of the decision", len(replicas)),
            Fact(SEEN, len(found), len(_SENT)),
            Fact(LOST, missing(_SENT, found), 0),
        )
    )


def _brokers(stage: Stage, first: KillableBroker) -> list[str]:
    running = sorted(broker.broker_id for broker in stage.admin.cluster.describe().brokers)
    return [
        f"brokers {', '.join(map(str, running))} run",
        f"process {first.pid} {'kill -9' if first.was_killed else 'is broker ' + str(first.node_id)}",
        f"coordinator: {_coordinator(stage) or 'none'}",
        f"leader of orders:0: {_LEADER}",
    ]


def _coordinator(stage: Stage) -> int | None:
    """The leader of the one partition in which all decisions are; ``None`` if there is none now."""
    (partition,) = stage.admin.topics.describe(TRANSACTION_STATE_TOPIC).partitions
    return partition.leader


LOST_COORDINATOR: Final = Scene(
    7,
    "lost-coordinator",
    "The coordinator dies between PREPARE and the markers",
    (
        "A commit is final once PREPARE_COMMIT is in the coordinator's log; the markers follow. Who finishes the "
        "work when the coordinator dies in between?"
    ),
    "replicas of __transaction_state",
    _play,
)
