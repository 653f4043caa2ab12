"""Real ZooKeeper servers as processes, from the jars in PySpark: one standalone server, or an ensemble."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from semel.cli.local_cluster import zookeeper_server
from tools.patience import PATIENCE_S
from tools.ports import HOST, free_port


class ZooKeeperServer(zookeeper_server.ZooKeeperServer):
    """A ZooKeeper server that can be paused."""

    def await_service(self, *, within_s: float = PATIENCE_S) -> None:
        super().await_service(within_s=within_s)

    def pause(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)


@contextlib.contextmanager
def running(folder: Path, *, tick_ms: int = 500) -> Iterator[ZooKeeperServer]:
    """Run one standalone server until the ``with`` block ends."""
    server = _server(folder, f"tickTime={tick_ms}\n")
    try:
        server.start()
        yield server
    finally:
        server.kill()


@contextlib.contextmanager
def ensemble(folder: Path, *, servers: int = 3, tick_ms: int = 500) -> Iterator[list[ZooKeeperServer]]:
    """Run an ensemble of servers until the ``with`` block ends."""
    members = [(number, free_port(), free_port()) for number in range(1, servers + 1)]
    lines = "".join(f"server.{number}={HOST}:{peer}:{election}\n" for number, peer, election in members)
    settings = f"tickTime={tick_ms}\ninitLimit=20\nsyncLimit=10\n{lines}"
    started = [_server(folder / str(number), settings, number) for number, _, _ in members]
    try:
        for server in started:
            server.launch()
        for server in started:
            server.await_service()
        yield started
    finally:
        for server in started:
            server.kill()


def _server(folder: Path, settings: str, number: int | None = None) -> ZooKeeperServer:
    java, jars = zookeeper_server.java_executable(), zookeeper_server.jars_in(None)
    return ZooKeeperServer(folder, free_port(), java=java, jars=jars, settings=settings, number=number)
