"""A ZooKeeper server as a process, from a folder of jars: those that come with PySpark, or others."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Final

from semel.errors import SemelError, StorageError
from semel.spark.java import NoJava, find_java, packaged_java

HOST: Final = "127.0.0.1"
START_SECONDS_MAX: Final = 60.0
_MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_WORDS: Final = "ruok,srvr"
# A small heap is enough for the few values of a cluster, and starts sooner.
_JAVA: Final = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.jmx.log4j.disable=true")
_PAUSE_S: Final = 0.05


def java_executable() -> Path:
    """Return a Java that ZooKeeper runs on. Raises ``SemelError``."""
    try:
        return find_java(os.environ, packaged=packaged_java(), program="ZooKeeper").executable
    except NoJava as error:
        raise SemelError(str(error)) from None


def jars_in(folder: Path | None) -> Path:
    """Return the folder with ZooKeeper's jars: the given one, or PySpark's. Raises ``SemelError`` if it has none."""
    option = "name a folder that has it with --zookeeper-jars DIR"
    if folder is None:
        found = importlib.util.find_spec("pyspark")  # Importing it would take a second.
        if found is None or found.origin is None:
            raise SemelError(
                f"ZooKeeper comes with PySpark, which is not installed: pip install 'semel[spark]', or {option}"
            )
        folder = Path(found.origin).parent / "jars"
    if not any(folder.glob("zookeeper-*.jar")):
        raise SemelError(f"there is no zookeeper-*.jar in {folder}: {option}")
    return folder


class ZooKeeperServer:
    """One ZooKeeper server, which can be started several times on the same folder and port. ``settings`` are lines of
    its ``zoo.cfg``."""

    def __init__(
        self, folder: Path, port: int, *, java: Path, jars: Path, settings: str, number: int | None = None
    ) -> None:
        self.port = port
        self._folder = folder
        self._command = [str(java), *_JAVA, "-cp", f"{jars}/*", _MAIN, str(folder / "zoo.cfg")]
        self._process: subprocess.Popen[bytes] | None = None
        data = folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        (folder / "zoo.cfg").write_text(
            f"dataDir={data}\nclientPort={port}\nclientPortAddress={HOST}\nadmin.enableServer=false\n"
            f"4lw.commands.whitelist={_WORDS}\nmaxClientCnxns=0\n{settings}"
        )
        if number is not None:
            (data / "myid").write_text(str(number))

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "ZooKeeper was not launched"
        return self._process

    def launch(self) -> None:
        with (self._folder / "output").open("ab") as output:
            # In a session of its own, so that Ctrl-C at the terminal reaches only the program that has started it.
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    def start(self) -> None:
        self.launch()
        self.await_service()

    def await_service(self, *, within_s: float = START_SECONDS_MAX) -> None:
        """Wait until the server answers. Raises ``StorageError``, with the last line that it printed."""
        deadline = time.monotonic() + within_s
        while "Mode: " not in self.ask("srvr"):
            has_ended = self.process.poll() is not None
            if has_ended or time.monotonic() > deadline:
                how = f"ended with code {self.process.returncode}" if has_ended else f"gave no answer in {within_s:g} s"
                printed = (self._folder / "output").read_text(errors="replace").strip().splitlines()
                raise StorageError(
                    f"ZooKeeper {how}; {self._folder / 'output'} ends with: {printed[-1] if printed else 'nothing'}"
                )
            time.sleep(_PAUSE_S)

    def ask(self, word: str) -> str:
        """Send one of ZooKeeper's four-letter words, and return the answer; an empty text if there is none."""
        try:
            with socket.create_connection((HOST, self.port), timeout=5) as connection:
                connection.sendall(word.encode())
                answer = b""
                while part := connection.recv(4096):
                    answer += part
                return answer.decode()
        except OSError:
            return ""

    def stop(self, *, within_s: float) -> None:
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(within_s)
        self.kill()

    def kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
