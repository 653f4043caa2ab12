"""A Postgres server for one test or campaign, with a temporary folder and a Unix socket; with a port only for JDBC."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tools.patience import wait_until

_DEBIAN = Path("/usr/lib/postgresql")
_USER = "postgres"


def binaries() -> Path | None:
    """Return the folder with initdb and postgres, which Debian does not put on PATH; ``None`` if there is none."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).parent
    versions = sorted(_DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return versions[-1].parent if versions else None


class PostgresServer:
    def __init__(
        self, folder: Path, programs: Path, port: int | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        self._folder = folder
        self._programs = programs
        self._port = port
        self._settings = {
            **({} if port is None else {"port": str(port)}),
            "listen_addresses": "" if port is None else "127.0.0.1",
            "shared_buffers": "16MB",
            "max_wal_senders": "0",
            **(settings or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None
        # Postgres refuses to run as root.
        self._as_user: dict[str, Any] = {"user": _USER, "group": _USER} if os.getuid() == 0 else {}
        if self._as_user:
            shutil.chown(folder, _USER, _USER)
        options = ["-A", "trust", "-U", _USER, "-E", "UTF8", "--no-locale", "-N"]
        command = [str(programs / "initdb"), "-D", str(folder / "data"), *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, **self._as_user)

    @property
    def dsn(self) -> str:
        port = "" if self._port is None else f" port={self._port}"
        return f"host={self._folder}{port} user={_USER} dbname=postgres"

    def start(self) -> None:
        folder = str(self._folder)
        settings = [word for key, value in self._settings.items() for word in ("-c", f"{key}={value}")]
        command = [str(self._programs / "postgres"), "-D", f"{folder}/data", "-k", folder, *settings]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder, **self._as_user)
        wait_until(self._is_up, "Postgres answers")

    def stop(self) -> None:
        """Stop the server. Open transactions are rolled back."""
        self._end(signal.SIGINT)

    def crash(self) -> None:
        """Stop the server without a shutdown: the next start recovers from its log, and unlogged tables are empty."""
        self._end(signal.SIGQUIT)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def _is_up(self) -> bool:
        try:
            psycopg.connect(self.dsn).close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def postgres_server(*, port: int | None = None, settings: Mapping[str, str] | None = None) -> Iterator[PostgresServer]:
    """Run a server until the ``with`` block ends.

    Its folder is not in a folder of the caller, because the user that runs the server might not have access to it.
    """
    programs = binaries()
    assert programs is not None, "the test needs postgres"
    with tempfile.TemporaryDirectory(prefix="semel-postgres-", ignore_cleanup_errors=True) as folder:
        server = PostgresServer(Path(folder), programs, port, settings)
        server.start()
        try:
            yield server
        finally:
            server.crash()
