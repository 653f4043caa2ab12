"""``semel demo`` needs the extra ``spark`` and nothing else, so its modules import nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Of the extra `dev`, what tools and tests import; and the tools.
MISSING = ("aiokafka", "confluent_kafka", "hypothesis", "kafka", "kio", "lz4", "pytest", "tools", "trustme")


@pytest.mark.parametrize("module", ["demonstration", "exact_totals", "plain_totals"])
def test_the_demo_needs_nothing_of_what_only_development_needs(module: str) -> None:
    program = f"import sys; sys.modules.update(dict.fromkeys({MISSING!r})); import semel.demo.{module}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
