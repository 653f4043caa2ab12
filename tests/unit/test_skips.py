"""What was not run is said at the end of the run, with the reason, also when several processes run the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TESTS = """
import pytest

@pytest.mark.needs("kcat")
@pytest.mark.parametrize("number", range(7))
def test_with_kcat(number):
    pass

@pytest.mark.skip(reason="it is for another day")
def test_later():
    pass
"""


@pytest.mark.parametrize("processes", ["0", "2"])
def test_skips_are_listed_with_their_reason(tmp_path: Path, processes: str) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "bin").mkdir()
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-n", processes]
    environment = {
        name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST_XDIST")
    }
    searched = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment |= {"PATH": str(tmp_path / "bin"), "PYTHONPATH": searched}
    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path), str(tmp_path)], env=environment, capture_output=True, text=True
    )
    listed = done.stdout.partition(" not run ")[2].splitlines()[1:]
    assert listed[0].startswith("7 skipped: needs kcat: there is no kcat on PATH"), done.stdout + done.stderr
    assert all(line.startswith("    ") and "test_with_kcat" in line for line in listed[1:6])
    assert listed[6:9] == ["    ... and 2 more", "1 skipped: it is for another day", "    test_it.py::test_later"]
