"""Fifty ``kill -9`` of the broker during rebalances, in ten runs, with members that are killed, paused and leave.

Each run has one group, with the next one of the mixes below: one library or several, with up to twelve members.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any, Final

from tools.brokers import semel
from tools.group_run import SETTINGS, Fault, Plan, disturb
from tools.member_process import AIOKAFKA, CONFLUENT, KAFKA_PYTHON, OWN, PYTHON_LIBRARIES
from tools.members.role import CONSUMER_PROTOCOL
from tools.run_result import to_json
from tools.server import running

KILLS: Final = 5

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
COUNT: Final = len(MIXES)


def run(seed: int) -> dict[str, Any]:
    plan = MIXES[seed % len(MIXES)]
    faults = [*[Fault.KILL_BROKER] * KILLS, Fault.KILL, Fault.PAUSE, Fault.LEAVE]
    random.Random(seed).shuffle(faults)
    with (
        tempfile.TemporaryDirectory(prefix="semel-groups-") as folder,
        running(semel(Path(folder), settings=SETTINGS)) as server,
    ):
        run = disturb(server, [plan], Path(folder), seed=seed, faults=faults)
        return {**to_json(run), "groups": ", ".join(run.groups)}
