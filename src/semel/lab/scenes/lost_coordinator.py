"""Scene 7: the coordinator dies when a commit is decided and no marker has been written."""

from __future__ import annotations

from typing import Final

from semel.lab.scene import LOST, SEEN, Fact, Scene, Verdict, missing
from semel.lab.stage import PATIENCE_S, Stage
from semel.testing.cluster import Cluster

_SENT: Final = ("a", "b")
_ID: Final = "transfers"


def _play(stage: Stage) -> Verdict:
    copies = 3 if stage.protected else 1
    cluster = stage.cluster(
        transaction_state_log_replication_factor=copies,
        transaction_state_log_min_isr=1,
        transaction_state_log_num_partitions=3,
        default_replication_factor=1,
    )
    stage.show("WriteTxnMarkers")
    producer = stage.producer("producer", transactional_id=_ID)
    coordinator = cluster.transaction_coordinator(_ID)
    assert coordinator is not None
    leader = next(node_id for node_id in cluster.brokers if node_id != coordinator)
    stage.topic("orders", assignments={0: [leader]})
    stage.watch("cluster", lambda: _brokers(cluster, leader))
    stage.step(
        "Broker {coordinator} coordinates the transactions of this producer, broker {leader} has the partition. The "
        "decisions of the coordinator are in a log with {copies} replicas.",
        coordinator=coordinator,
        leader=leader,
        copies=copies,
    )

    held = cluster.brokers[leader].faults.hold("WriteTxnMarkers")
    producer.begin()
    for value in _SENT:
        producer.send("orders", value.encode())
    producer.commit()
    held.wait(PATIENCE_S)
    stage.step(
        "The transaction is committed: PREPARE_COMMIT is in the log of the coordinator, and the producer has its "
        "answer. The marker is on its way, and the network holds it. Readers see nothing yet."
    )

    cluster.brokers[coordinator].stop(kill=True)
    cluster.expire_session(coordinator)
    held.release()
    if stage.protected:
        stage.wait_for("a coordinator that finishes it", lambda: bool(stage.log("orders").markers))
        stage.step(
            "Broker {coordinator} is killed. Broker {successor} has a replica of the log, finds PREPARE_COMMIT "
            "without COMPLETE, and writes the markers.",
            coordinator=coordinator,
            successor=cluster.transaction_coordinator(_ID),
        )
    else:
        stage.step(
            "Broker {coordinator} is killed, and with it the only copy of the decision. The producer was told that "
            "its transaction is committed; no broker that is left knows of it.",
            coordinator=coordinator,
        )
    found = stage.read("orders")
    return Verdict(
        (
            Fact("replicas of the decision", copies),
            Fact(SEEN, len(found), len(_SENT)),
            Fact(LOST, missing(_SENT, found), 0),
        )
    )


def _brokers(cluster: Cluster, leader: int) -> list[str]:
    running = [node_id for node_id, broker in cluster.brokers.items() if broker.is_running]
    coordinator = cluster.transaction_coordinator(_ID)
    return [
        f"brokers {', '.join(map(str, running))} run",
        f"coordinator: {'none' if coordinator is None else coordinator}",
        f"leader of orders:0: {leader}",
    ]


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
