"""kafkajs, in Node's own test runner: produce, a group, transactions, administration, on Semel and on Apache Kafka."""

from __future__ import annotations

import pytest

from tools.languages import run_node_test
from tools.server import Server

pytestmark = [pytest.mark.kafka, pytest.mark.needs("node")]


def test_every_test_of_the_program_passes(cluster: Server) -> None:
    run_node_test("kafkajs.test.js", cluster.bootstrap_servers)
