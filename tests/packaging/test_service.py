"""``packaging/semel.service``: systemd understands all of it, and the broker tells it when it is ready."""

from __future__ import annotations

import configparser
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from semel.cli.main import make_parser
from tests.packaging.built import ROOT
from tools.patience import PATIENCE_S

UNIT = ROOT / "packaging" / "semel.service"


def unit() -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    return parser


def test_the_command_of_the_unit_is_one_that_the_command_line_takes() -> None:
    executable, *words = shlex.split(unit()["Service"]["ExecStart"])
    assert executable.endswith("/semel")
    options = make_parser(["serve"]).parse_args(words)
    assert (options.config, options.data_dir) == ("/etc/semel/server.properties", "/var/lib/semel")


def test_the_service_has_a_user_that_is_made_and_a_folder_that_is_its_own() -> None:
    service = unit()["Service"]
    user = (ROOT / "packaging" / "semel.sysusers").read_text().splitlines()[-1].split()
    assert (service["User"], service["Group"]) == (user[1], user[1])
    assert service["StateDirectory"] == Path(user[-1]).name


@pytest.mark.needs("systemd")
def test_systemd_has_nothing_to_say_about_the_unit(tmp_path: Path) -> None:
    installed = tmp_path / "semel.service"
    installed.write_text(UNIT.read_text().replace("/opt/semel/bin/semel", str(Path(sys.executable).with_name("semel"))))
    done = subprocess.run(["systemd-analyze", "verify", str(installed)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_broker_tells_the_service_manager_when_it_serves(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        process = subprocess.Popen(
            [sys.executable, "-m", "semel", "serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data")],
            stdout=subprocess.PIPE,
            env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")},
        )
        try:
            assert manager.recv(100) == b"READY=1"
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"semel ready on ")
        finally:
            process.kill()
            process.communicate()
