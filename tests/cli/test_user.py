"""``semel user`` on a real broker, and on the data directory of one that does not run."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from semel.cli.exits import Exit
from semel.cli.terminal.passwords import PASSWORD_VARIABLE
from semel.testing import Broker
from tests.broker.raw_client import RawClient
from tests.broker.security.sasl_listener import log_in
from tests.cli.conftest import Run
from tools.patience import PATIENCE_S

SASL = "SASL_PLAINTEXT://127.0.0.1:0"
BOTH = ["SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.fixture
def password_file(tmp_path: Path) -> str:
    path = tmp_path / "password"
    path.write_text("the secret of the file\nand a second line\n")
    return str(path)


def test_users_are_added_listed_and_removed(run: Run, password_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("user", "list") == "no users\n"
    added = run("user", "add", "alice", "--password-file", password_file, "--json")
    assert json.loads(added) == {"user": "alice", "mechanisms": BOTH}
    monkeypatch.setenv(PASSWORD_VARIABLE, "the secret of the environment")
    run("user", "add", "bob", "--mechanism", "scram-sha-512", "--iterations", "4096")
    assert run("user", "list").splitlines() == [
        "USER   MECHANISM      ITERATIONS",
        "alice  SCRAM-SHA-256        8192",
        "alice  SCRAM-SHA-512        8192",
        "bob    SCRAM-SHA-512        4096",
    ]
    run("user", "remove", "alice", "--mechanism", "scram-sha-256")
    removed = run("user", "remove", "alice", "--json")
    assert json.loads(removed) == {"user": "alice", "removed": ["SCRAM-SHA-512"]}
    assert "alice" in run("user", "remove", "alice", exit_code=Exit.NOT_FOUND)
    assert "bob" in run("user", "remove", "bob", "--mechanism", "scram-sha-256", exit_code=Exit.NOT_FOUND)
    run("user", "remove", "bob")
    assert json.loads(run("user", "list", "--json")) == []


def test_mistakes_are_told_before_a_password_is_asked_for(run: Run, tmp_path: Path) -> None:
    assert "no terminal" in run("user", "add", "alice", exit_code=Exit.USAGE)
    assert "between 4096 and 16384" in run("user", "add", "alice", "--iterations", "1", exit_code=Exit.USAGE)
    assert "not empty" in run("user", "add", "", exit_code=Exit.USAGE)
    assert "cannot be read" in run("user", "add", "a", "--password-file", str(tmp_path / "no"), exit_code=Exit.USAGE)
    (tmp_path / "empty").write_text("\n")
    assert "is empty" in run("user", "add", "a", "--password-file", str(tmp_path / "empty"), exit_code=Exit.USAGE)


def test_there_is_no_option_for_the_password_itself(run: Run) -> None:
    assert "unrecognized arguments" in run("user", "add", "alice", "--password", "secret", exit_code=Exit.USAGE)


def test_a_password_is_asked_for_twice_and_never_echoed(broker: Broker) -> None:
    def asked(*answers: str) -> tuple[int, str]:
        terminal, of_command = pty.openpty()
        command = [
            sys.executable,
            "-m",
            "semel",
            "user",
            "add",
            "carol",
            "--bootstrap-server",
            broker.bootstrap_servers,
        ]
        environment = {name: value for name, value in os.environ.items() if name != PASSWORD_VARIABLE}
        with subprocess.Popen(
            command, stdin=of_command, stdout=of_command, stderr=of_command, env=environment, start_new_session=True
        ) as process:
            os.close(of_command)
            shown = ""
            for prompt, answer in zip(("password: ", "once more: "), answers, strict=True):
                while prompt not in shown:
                    shown += os.read(terminal, 1000).decode()
                os.write(terminal, f"{answer}\n".encode())
            try:
                while more := os.read(terminal, 1000).decode():
                    shown += more
            except OSError:
                pass  # The command has ended, and with it its side of the terminal.
            code = process.wait(PATIENCE_S)
            os.close(terminal)
            return code, shown

    code, shown = asked("a secret", "another")
    assert (code, "not the same" in shown, "secret" in shown) == (Exit.USAGE, True, False)
    code, shown = asked("a secret", "a secret")
    assert (code, "secret" in shown) == (Exit.OK, False), shown


# The first user


def bootstrapped(run_folder: Path, password_file: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "semel", "user", "bootstrap", "admin", "--password-file", password_file]
    return subprocess.run(
        [*command, "--data-dir", str(run_folder), *more],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_the_first_user_is_there_before_the_first_start(tmp_path: Path, password_file: str) -> None:
    folder = tmp_path / "data"
    done = bootstrapped(folder, password_file, "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"user": "admin", "mechanisms": BOTH}), done.stderr
    with Broker(folder, listeners=SASL) as broker, RawClient(broker.port) as client:
        assert log_in(client, "admin", "the secret of the file").error_code == 0


def test_a_user_is_bootstrapped_beside_what_is_there(tmp_path: Path, password_file: str) -> None:
    folder = tmp_path / "data"
    with Broker(folder) as broker, RawClient(broker.port) as client:
        client.create_topic("kept")
    assert bootstrapped(folder, password_file).returncode == 0
    assert bootstrapped(folder, password_file, "--mechanism", "scram-sha-256").returncode == 0
    with Broker(folder, listeners=SASL) as broker, RawClient(broker.port) as client:
        assert log_in(client, "admin", "the secret of the file").error_code == 0
        assert client.fetch("kept", 0).error_code == 0


def test_the_directory_of_a_running_broker_is_not_touched(tmp_path: Path, password_file: str) -> None:
    with Broker(tmp_path / "data"):
        done = bootstrapped(tmp_path / "data", password_file)
    assert done.returncode == Exit.FAILED
    assert "Traceback" not in done.stderr
    assert "in use by another broker" in done.stderr
