"""A broker, and the commands as a person or a script runs them on it."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator

import pytest

from semel.cli.exits import Exit
from semel.cli.main import main
from semel.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=2, group_initial_rebalance_delay_ms=0) as running:
        yield running


class Run:
    """Runs a command; returns what it printed, and for one that failed what it said about it."""

    def __init__(self, servers: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._servers = servers
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        self.said = ""
        """What the last command printed to standard error."""

    def __call__(self, *arguments: str, stdin: bytes = b"", exit_code: int = Exit.OK) -> str:
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        try:
            code = main([*arguments, "--bootstrap-server", self._servers])
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        printed = self._capsys.readouterr()
        self.said = printed.err
        assert code == exit_code, printed.err
        assert "Traceback" not in printed.err
        return printed.out if code == Exit.OK else printed.err


@pytest.fixture
def run(broker: Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("NO_COLOR", "1")
    return Run(broker.bootstrap_servers, capsys, monkeypatch)


@pytest.fixture
def topic(request: pytest.FixtureRequest, run: Run) -> str:
    name = re.sub(r"\W", "-", request.node.name)[-60:]
    run("topic", "create", name, "--partitions", "2")
    return name
