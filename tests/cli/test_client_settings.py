"""Settings of the client for every command: from a file, from the environment, and what is said about passwords."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.cli.exits import Exit
from semel.testing import Broker
from tests.cli.conftest import Run

PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(users={"alice": PASSWORD}) as running:
        yield running


@pytest.fixture
def login(tmp_path: Path) -> Path:
    path = tmp_path / "alice.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f"sasl.username=alice\nsasl.password={PASSWORD}\n"
    )
    path.chmod(0o600)
    return path


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEMEL_COMMAND_CONFIG", raising=False)


def test_a_file_lets_every_command_log_in(run: Run, login: Path) -> None:
    run("topic", "list", "--command-config", str(login))
    assert run.said == ""


def test_the_environment_names_the_file_and_an_option_wins(
    run: Run, login: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMEL_COMMAND_CONFIG", str(login))
    run("topic", "list")
    assert run.said == ""
    (tmp_path / "mallory.properties").write_text(login.read_text().replace(PASSWORD, "wrong"))
    (tmp_path / "mallory.properties").chmod(0o600)
    said = run("topic", "list", "--command-config", str(tmp_path / "mallory.properties"), exit_code=Exit.FAILED)
    assert "SASL_AUTHENTICATION_FAILED" in said
    assert "wrong" not in said.replace("wrong user or password", "")


def test_a_file_of_the_environment_that_is_not_there_is_named_with_its_variable(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMEL_COMMAND_CONFIG", "/nowhere")
    said = run("topic", "list", exit_code=Exit.USAGE)
    assert said == "semel: $SEMEL_COMMAND_CONFIG /nowhere cannot be read: No such file or directory\n"


def test_a_file_with_a_password_that_every_user_can_read_is_warned_of_in_one_line(run: Run, login: Path) -> None:
    login.chmod(0o644)
    run("topic", "list", "--command-config", str(login))
    assert run.said == (
        f"semel: warning: --command-config {login} has sasl.password and can be read by every user: chmod 600 {login}\n"
    )


def test_a_file_without_a_password_may_be_read_by_every_user(run: Run, tmp_path: Path) -> None:
    (tmp_path / "open.properties").write_text("security.protocol=SASL_SSL\nssl.truststore.certificates=none\n")
    (tmp_path / "open.properties").chmod(0o644)
    said = run("topic", "list", "--command-config", str(tmp_path / "open.properties"), exit_code=Exit.FAILED)
    assert said.startswith("semel: security.protocol=SASL_SSL needs sasl.mechanism")


def test_a_password_as_an_argument_is_warned_of_and_not_repeated(run: Run, login: Path) -> None:
    login.write_text(login.read_text().replace(PASSWORD, "wrong"))
    given = ("--command-property", f"sasl.password={PASSWORD}", "--command-property", "sasl.username=alice")
    run("topic", "list", "--command-config", str(login), *given)
    assert run.said == (
        "semel: warning: --command-property sasl.password can be read in the list of processes and in the shell's "
        "history: use --command-config FILE or $SEMEL_COMMAND_CONFIG\n"
    )


def test_an_argument_without_a_value_is_not_repeated(run: Run) -> None:
    said = run("topic", "list", "--command-property", f"sasl.password:{PASSWORD}", exit_code=Exit.USAGE)
    assert PASSWORD not in said
    assert len(said.splitlines()) == 1
