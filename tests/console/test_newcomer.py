"""A newcomer follows docs/console.md from ``pip install`` to the page of the first transaction, in a real browser."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.documentation.blocks import Command, blocks_of, commands_of
from tests.packaging.built import clean_environment, copy_checkout
from tests.packaging.repacked import repack
from tools.chromium import browser
from tools.patience import PATIENCE_MS, SPARK_PATIENCE_S

pytestmark = [pytest.mark.kafka, pytest.mark.needs("chromium"), pytest.mark.xdist_group("chromium")]

DOCUMENT: Final = "docs/console.md"
READY: Final = re.compile(r"semel ready on (\S+),.*\nsemel console on (http://\S+)/, brokers \1, it only looks\n")


def test_from_pip_install_to_the_first_transaction_in_the_browser(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clone = copy_checkout(tmp_path / "clone")
    project = tomllib.loads((clone / "pyproject.toml").read_text())
    extra = project["project"]["optional-dependencies"]["console"]
    repack([*project["build-system"]["requires"], *project["project"]["dependencies"], *extra], tmp_path / "wheels")
    first, second = [commands_of(block) for block in blocks_of(DOCUMENT)[:2]]
    begun = time.monotonic()
    with served(first, clone, offline(tmp_path / "wheels")) as (servers, console):
        shell = typed(second, clone, {**clean_environment(), "SEMEL_BOOTSTRAP_SERVERS": servers})
        printed, complaints = shell.communicate(timeout=SPARK_PATIENCE_S)
        assert shell.returncode == 0, complaints
        assert printed.split() == [word for command in second for line in command.output for word in line.split()]
        page_text = seen(console)
    seconds = time.monotonic() - begun
    assert re.search(r"shop CompleteCommit .* 1 transaction, all there ever were", page_text)
    assert re.search(r"orders:0 0 0 commit at 1", page_text)
    with capsys.disabled():
        print(f"\nfrom pip install to the first transaction in the browser: {seconds:.0f} s")


def seen(console: str) -> str:
    """The text of the page that the document leads to."""
    text = (Path(__file__).parents[2] / DOCUMENT).read_text()
    told = re.search(r"Then open <http://127\.0\.0\.1:8080(/\S*)> in the browser and choose `(\w+)`", text)
    assert told is not None
    with browser() as started:
        page = started.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(console + told[1])
        page.click(f"main >> text={told[2]}")
        page.wait_for_selector(f"h1 >> text={told[2]}")
        return " ".join(page.inner_text("main").split())


@contextmanager
def served(commands: Sequence[Command], folder: Path, environment: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The commands up to the one that serves; where broker and console then are."""
    *_, last = commands
    assert last.text.startswith("semel serve")
    shell = typed(commands, folder, environment)
    try:
        assert shell.stdout is not None
        printed = shell.stdout.readline() + shell.stdout.readline()
        ready = READY.fullmatch(printed)
        if ready is None:
            os.killpg(shell.pid, signal.SIGKILL)
            raise AssertionError(printed + "".join(shell.communicate()))
        yield ready[1], ready[2]
    finally:
        if shell.poll() is None:
            os.killpg(shell.pid, signal.SIGTERM)
        shell.communicate(timeout=SPARK_PATIENCE_S)


def typed(commands: Sequence[Command], folder: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    """One terminal: the commands in one shell, on ports that are free."""
    lines = [command.text for command in commands]
    if lines[-1].startswith("semel serve"):
        lines[-1] = "exec " + lines[-1].replace("127.0.0.1:8080", "127.0.0.1:0") + " --listen 127.0.0.1:0"
    return subprocess.Popen(
        ["bash", "-e", "-o", "pipefail", "-c", "\n".join(lines)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment,
        start_new_session=True,
    )


def offline(wheels: Path) -> dict[str, str]:
    """``python3`` is the one that runs the tests, and pip finds packages in a folder and nowhere else."""
    return {
        **clean_environment(),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_NO_INDEX": "1",
        "PIP_QUIET": "1",
    }
