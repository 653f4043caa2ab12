"""Fifty ``kill -9`` of the broker under rebalances, in ten runs, and as many faults of members beside them.

Each run has three groups at once, of the next three of the mixes below; every run disturbs members too, of which there
are up to twelve in a group.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

from tools.brokers import semel
from tools.group_run import SETTINGS, Fault, Plan, disturb, faults_of
from tools.member_process import AIOKAFKA, CONFLUENT, KAFKA_PYTHON, OWN, PYTHON_LIBRARIES
from tools.members.role import CONSUMER_PROTOCOL
from tools.server import running

COUNT: Final = 10
KILLS: Final = 5
_AT_ONCE: Final = 3

MIXES: Final = (
    Plan("all-libraries", PYTHON_LIBRARIES, "roundrobin", 12),
    Plan("semel-copies", (OWN,), "range", 4, is_transactional=True),
    Plan("confluent-kafka-kip-848", (CONFLUENT,), CONSUMER_PROTOCOL, 3),
    Plan("kafka-python-copies", (KAFKA_PYTHON,), "range", 3, is_transactional=True),
    Plan("semel-kip-848-copies", (OWN,), CONSUMER_PROTOCOL, 3, is_transactional=True),
    Plan("aiokafka", (AIOKAFKA,), "range", 2),
    Plan("confluent-kafka-copies", (CONFLUENT,), "cooperative-sticky", 3, is_transactional=True),
    Plan("cooperative", (OWN, CONFLUENT), "cooperative-sticky", 3),
    Plan("kip-848-copies", (CONFLUENT, OWN), CONSUMER_PROTOCOL, 2, is_transactional=True),
    Plan("range", (KAFKA_PYTHON, CONFLUENT, OWN), "range", 3, is_transactional=True),
)


def run(seed: int) -> dict[str, Any]:
    plans = [MIXES[(_AT_ONCE * seed + number) % len(MIXES)] for number in range(_AT_ONCE)]
    faults = faults_of(seed, 2 * KILLS, Fault.KILL_BROKER, Fault.KILL, Fault.KILL_BROKER, Fault.PAUSE)
    faults = [*faults, *[Fault.KILL_BROKER] * (KILLS - faults.count(Fault.KILL_BROKER)), Fault.LEAVE]
    with (
        tempfile.TemporaryDirectory(prefix="semel-groups-") as folder,
        running(semel(Path(folder), settings=SETTINGS)) as server,
    ):
        return disturb(server, plans, Path(folder), seed=seed, faults=faults).to_json()
