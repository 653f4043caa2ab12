"""``make demo`` installs the extra ``spark`` and nothing else, so its modules import nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

# Of the extra `dev`, what tools and tests import.
MISSING = ("aiokafka", "confluent_kafka", "hypothesis", "kafka", "kio", "lz4", "pytest", "trustme", "zstandard")


@pytest.mark.parametrize("module", ["tools.demo", "tools.plain_totals"])
def test_the_demo_needs_nothing_of_what_only_development_needs(module: str) -> None:
    program = f"import sys; sys.modules.update(dict.fromkeys({MISSING!r})); import {module}"
    search = f"sys.path += [{str(ROOT)!r}, {str(ROOT / 'examples')!r}]"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {search}; {program}"], capture_output=True, text=True, cwd="/"
    )
    assert done.returncode == 0, done.stderr
