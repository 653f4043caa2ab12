"""``semel serve`` as a user meets it: a process, its output and its exit code."""

from __future__ import annotations

import re
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from semel.cli.main import main
from semel.errors import ErrorCode
from semel.testing import certificate
from semel.wire.apis import ApiKey
from semel.wire.messages.metadata import MetadataRequest
from tests.broker.raw_client import RawClient, batch, values
from tools.patience import PATIENCE_S

READY = re.compile(
    r"semel ready on 127\.0\.0\.1:(?P<port>\d+), node (?P<node>\d+), cluster (?P<cluster>\S{22}), "
    r"data in (?P<folder>\S+)"
    r"(, metrics on (?P<metrics>http://127\.0\.0\.1:\d+/metrics))?\n"
)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "import sys; from semel.cli.main import main; sys.exit(main())", "serve", *arguments]


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], re.Match[str]]]:
    process = subprocess.Popen(
        command("--data-dir", str(folder), "--listen", "127.0.0.1:0", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        ready = READY.fullmatch(line)
        assert ready is not None, (line, process.stderr.read() if process.stderr else "")
        yield process, ready
    finally:
        process.kill()
        process.communicate()


def failed(*arguments: str) -> tuple[int, str]:
    """Exit code and standard error of a serve that does not come up."""
    process = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert process.stdout == ""
    # On a busy machine it may have said besides that its loop had to wait.
    said = process.stderr.splitlines(keepends=True)
    return process.returncode, "".join(line for line in said if "the event loop was kept" not in line)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_once_that_it_is_ready_serves_and_stops_when_told(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path) as (process, ready):
        assert (ready["node"], ready["folder"]) == ("1", str(tmp_path))
        with RawClient(int(ready["port"])) as client:
            client.create_topic("t")
            client.produce("t", batch(b"kept"))
            process.send_signal(number)
            out, errors = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, out) == (0, "")
        assert "Traceback" not in errors
    with serving(tmp_path) as (_, again):
        assert again["cluster"] == ready["cluster"]
        with RawClient(int(again["port"])) as client:
            assert values(client.fetch("t", 0)) == [(0, b"kept")]


def test_the_folder_may_be_a_relative_path_as_the_default_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with serving(Path("semel-data")) as (_, ready):
        assert ready["folder"] == "semel-data"
    assert (tmp_path / "semel-data" / "meta.properties").exists()


def test_what_was_acknowledged_is_there_after_kill_9(tmp_path: Path) -> None:
    with serving(tmp_path) as (process, ready):
        with RawClient(int(ready["port"])) as client:
            client.create_topic("t")
            for number in range(20):
                client.produce("t", batch(b"%d" % number))
        process.kill()
        process.wait()
    with serving(tmp_path) as (_, again), RawClient(int(again["port"])) as client:
        assert values(client.fetch("t", 0)) == [(number, b"%d" % number) for number in range(20)]


def test_on_a_disk_that_takes_no_byte_it_starts_serves_reads_and_stops(tmp_path: Path) -> None:
    with serving(tmp_path) as (process, ready):
        with RawClient(int(ready["port"])) as client:
            client.create_topic("t")
            client.produce("t", batch(b"kept"))
        process.kill()
        process.wait()
    # As on a full disk, but for the number of the error: no file grows, and root is not needed.
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); "
    program, option, code, *arguments = command("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0")
    process = subprocess.Popen(
        [program, option, full + code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        ready_line = READY.fullmatch(process.stdout.readline())
        assert ready_line is not None, process.communicate()
        with RawClient(int(ready_line["port"])) as client:
            assert values(client.fetch("t", 0)) == [(0, b"kept")]
            refused = client.produce("t", batch(b"no room"))
            assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert refused.error_message == "t-0: write failed: [Errno 27] File too large"
        process.terminate()
        _, errors = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == 1
    assert "Traceback" not in errors
    assert errors.count("was refused: [Errno 27]") == 1
    with serving(tmp_path) as (_, again), RawClient(int(again["port"])) as client:
        assert values(client.fetch("t", 0)) == [(0, b"kept")]


def test_settings_come_from_a_file_and_the_command_line_wins(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# a comment\nnode.id=7\nnum.partitions=2\n")
    arguments = ("--config", str(file), "--set", "num.partitions=3", "--metrics", "127.0.0.1:0")
    with serving(tmp_path / "data", *arguments) as (_, ready):
        assert ready["node"] == "7"
        with RawClient(int(ready["port"])) as client:
            client.create_topic("t", partitions=-1)
            assert client.produce("t", batch(b"x"), partition=2).error_code == 0
            assert client.produce("t", batch(b"x"), partition=3).error_code == 3
        with urllib.request.urlopen(ready["metrics"]) as page:
            assert b"semel_partitions 3" in page.read()


def test_clients_are_told_the_advertised_address(tmp_path: Path) -> None:
    with (
        serving(tmp_path, "--advertise", "kafka.example.org:0") as (_, ready),
        RawClient(int(ready["port"])) as client,
    ):
        (node,) = client.call(ApiKey.METADATA, 9, MetadataRequest(topics=[])).brokers
        assert (node.host, node.port) == ("kafka.example.org", int(ready["port"]))


@pytest.mark.parametrize("option", ["--listen", "--metrics"])
def test_an_address_that_is_taken_is_said_in_one_sentence_and_leaves_no_directory(tmp_path: Path, option: str) -> None:
    folder = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        addresses = {"--listen": "127.0.0.1:0", option: address}
        code, errors = failed("--data-dir", str(folder), *(word for each in addresses.items() for word in each))

    assert code == 1
    assert errors == f"semel: cannot listen: {address} is in use by another process\n"
    assert not folder.exists()


def test_it_listens_where_the_setting_says_and_says_where_that_is(tmp_path: Path) -> None:
    keystore = tmp_path / "own.pem"
    keystore.write_text(certificate.PRIVATE_KEY + certificate.CERTIFICATE)
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.location": str(keystore),
    }
    arguments = [part for name, text in settings.items() for part in ("--set", f"{name}={text}")]
    process = subprocess.Popen(
        command("--data-dir", str(tmp_path / "data"), *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(
            r"ready on 127.0.0.1:(\d+), .*, listeners PLAINTEXT://127.0.0.1:(\d+) SSL://127.0.0.1:(\d+)$", line
        )
        assert found is not None, line
        assert found[1] == found[2]
        trusting = ssl.create_default_context(cadata=certificate.AUTHORITY)
        for port, context in ((found[2], None), (found[3], trusting)):
            with RawClient(int(port), tls=context) as client:
                (broker,) = client.call(ApiKey.METADATA, 9, MetadataRequest(topics=[])).brokers
                assert broker.port == int(port)
    finally:
        process.kill()
        process.communicate()


def test_a_certificate_that_cannot_be_used_is_said_in_one_sentence(tmp_path: Path) -> None:
    keystore = tmp_path / "own.pem"
    keystore.write_text("hunter2")
    code, said = failed(
        "--data-dir",
        str(tmp_path / "data"),
        *("--set", "listeners=SSL://127.0.0.1:0"),
        *("--set", f"ssl.keystore.location={keystore}"),
    )
    assert code == 1
    (line,) = said.splitlines()
    assert line.startswith(f"semel: ssl.keystore.location={keystore} cannot be used: ")
    assert "hunter2" not in line


def test_without_a_setting_of_security_nothing_of_it_is_imported(tmp_path: Path) -> None:
    """A start is a few milliseconds; what it does not need is not a part of it."""
    program = (
        "import sys\n"
        "from semel.cli.commands import serve\n"
        "def ready(broker):\n"
        "    print(*sys.modules)\n"
        "    sys.stdout.flush()\n"
        "    sys.exit(0)\n"
        "serve._say_ready = ready\n"
        "from semel.cli.main import main\n"
        "main()\n"
    )
    arguments = ["serve", "--data-dir", str(tmp_path), "--listen", "127.0.0.1:0"]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    modules = done.stdout.split()
    assert "semel.broker.broker" in modules, done.stderr
    secured = (
        "semel.security",
        "semel.broker.security",
        "semel.broker.quotas",
        "semel.metadata.security",
        "semel.net.tls_server",
    )
    assert [name for name in modules if name.startswith(secured)] == []


def test_an_address_of_another_machine_is_said_in_one_sentence_and_leaves_no_directory(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    assert failed("--data-dir", str(folder), "--listen", "192.0.2.1:9092") == (
        1,
        "semel: cannot listen: this machine has no address 192.0.2.1:9092\n",
    )
    assert not folder.exists()


def test_a_data_directory_that_is_taken_names_who_has_it(tmp_path: Path) -> None:
    with serving(tmp_path) as (process, _):
        code, errors = failed("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0")

        assert code == 1
        assert errors == f"semel: {tmp_path} is in use by another broker (semel pid {process.pid})\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--set", "num.partition=3"), "num.partitions"),
        (("--set", "num.partitions=many"), "many"),
        (("--set", "num.partitions"), "KEY=VALUE"),
        (("--listen", "9092"), "HOST:PORT"),
        (("--listen", "localhost:99999"), "HOST:PORT"),
        (("--listen", "0.0.0.0:9092"), "--advertise"),
        (("--listen", "localhost:9092", "--set", "listeners=PLAINTEXT://localhost:9092"), "give only one of them"),
        (("--advertise", "localhost:9092", "--set", "listeners=PLAINTEXT://localhost:9092"), "give only one of them"),
        (("--set", "listeners=PLAINTEXT:9092"), "NAME://HOST:PORT"),
        (("--set", "listeners=SSL://0.0.0.0:9092"), "advertised.listeners"),
        (("--config", "no-such-file"), "no-such-file"),
        (("--config", "/dev/null/no-folder"), "Not a directory"),
    ],
)
def test_wrong_usage_is_said_in_one_sentence_that_names_the_right_one(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", *arguments])

    assert ended.value.code == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("semel: ")
    assert sentence in said


def test_an_option_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--no-such-option"])

    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == "semel: error: unrecognized arguments: --no-such-option"


def test_help_shows_examples_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--help"])

    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "examples:" in shown
    assert "exit codes:" in shown


def test_a_console_is_started_beside_the_broker_and_ends_with_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        console = probe.getsockname()[1]
    with serving(tmp_path, "--console", f"127.0.0.1:{console}") as (process, ready):
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == (
            f"semel console on http://127.0.0.1:{console}/, brokers 127.0.0.1:{ready['port']}, it only looks\n"
        )
        with urllib.request.urlopen(f"http://127.0.0.1:{console}/cluster", timeout=PATIENCE_S) as response:
            assert f"127.0.0.1:{ready['port']}" in response.read().decode()
        process.kill()  # However it ends, the console ends with it, and closes what both have written to.
        assert process.stdout.read() == ""
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{console}/", timeout=PATIENCE_S)


def test_a_console_for_a_broker_that_wants_a_login_is_started_by_itself(tmp_path: Path) -> None:
    code, said = failed(
        "--data-dir", str(tmp_path), "--console", "127.0.0.1:0", "--set", "listeners=SASL_PLAINTEXT://127.0.0.1:0"
    )
    assert (code, "semel console --command-config FILE" in said) == (2, True), said
