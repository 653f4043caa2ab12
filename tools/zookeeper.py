"""Real ZooKeeper servers as processes, from the jars that come with PySpark: one alone, or several as an ensemble."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyspark

from semel.spark.java import use_java
from tools.patience import wait_until
from tools.server import HOST, free_port

JARS = Path(pyspark.__file__).parent / "jars"
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_WORDS = "ruok,srvr"
# Small: a server holds a few values, and starts sooner.
_JAVA = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.jmx.log4j.disable=true")


class ZooKeeperServer:
    """One server, started and killed on the same directory and port."""

    def __init__(self, folder: Path, port: int, settings: str, *, number: int | None = None) -> None:
        self.port = port
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        data = folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        (folder / "zoo.cfg").write_text(f"dataDir={data}\nclientPort={port}\n{settings}")
        if number is not None:
            (data / "myid").write_text(str(number))

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def launch(self) -> None:
        java = use_java().executable
        command = [str(java), *_JAVA, "-cp", f"{JARS}/*", _MAIN, str(self._folder / "zoo.cfg")]
        with (self._folder / "output").open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)

    def start(self) -> None:
        self.launch()
        self.await_service()

    def await_service(self) -> None:
        def told() -> str:
            return f"ZooKeeper does not serve: {(self._folder / 'output').read_text()[-2000:]}"

        wait_until(lambda: "Mode: " in self.ask("srvr"), told, pause_s=0.05)

    def ask(self, word: str) -> str:
        """The answer to one of ZooKeeper's four-letter words; nothing if there is none."""
        try:
            with socket.create_connection((HOST, self.port), timeout=5) as connection:
                connection.sendall(word.encode())
                answer = b""
                while part := connection.recv(4096):
                    answer += part
                return answer.decode()
        except OSError:
            return ""

    def pause(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


@contextlib.contextmanager
def running(folder: Path, *, tick_ms: int = 500) -> Iterator[ZooKeeperServer]:
    """One server that stands alone."""
    server = ZooKeeperServer(folder, free_port(), _common(tick_ms))
    try:
        server.start()
        yield server
    finally:
        server.kill()


@contextlib.contextmanager
def ensemble(folder: Path, *, servers: int = 3, tick_ms: int = 500) -> Iterator[list[ZooKeeperServer]]:
    """Several that elect a leader."""
    members = [(number, free_port(), free_port()) for number in range(1, servers + 1)]
    lines = "".join(f"server.{number}={HOST}:{peer}:{election}\n" for number, peer, election in members)
    settings = f"{_common(tick_ms)}initLimit=20\nsyncLimit=10\n{lines}"
    started = [ZooKeeperServer(folder / str(number), free_port(), settings, number=number) for number, _, _ in members]
    try:
        for server in started:
            server.launch()
        for server in started:
            server.await_service()
        yield started
    finally:
        for server in started:
            server.kill()


def _common(tick_ms: int) -> str:
    return f"tickTime={tick_ms}\nadmin.enableServer=false\n4lw.commands.whitelist={_WORDS}\nmaxClientCnxns=0\n"
