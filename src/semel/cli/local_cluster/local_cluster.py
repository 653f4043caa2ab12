"""Starts, watches and stops the processes of a local cluster. Stopping takes bounded time.

ZooKeeper is started before the brokers and stopped after them, because a broker that stops writes to ZooKeeper. A
process that ends by itself, or by ``kill -9``, is started again.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from semel.cli.local_cluster.cluster_file import HOST, BrokerPorts, ClusterFile
from semel.cli.local_cluster.zookeeper_server import START_SECONDS_MAX, ZooKeeperServer
from semel.errors import StorageError

# A broker that was told to stop ends its process before that (see ``cli/terminal/stop_signals.py``).
BROKER_STOP_SECONDS_MAX: Final = 10.0
ZOOKEEPER_STOP_SECONDS_MAX: Final = 3.0
RESTART_PAUSE_S: Final = 2.0
_PAUSE_S: Final = 0.05
_READY: Final = b"semel ready on "
_INTERNAL_FACTOR: Final = 3
# ZooKeeper allows session timeouts of 2 to 20 ticks; the brokers' zookeeper.session.timeout.ms is 6 s.
_ZOOKEEPER: Final = "tickTime=1000\nautopurge.purgeInterval=1\nautopurge.snapRetainCount=3\n"


class LocalCluster:
    """The processes of one local cluster. ``settings`` are ``KEY=VALUE`` for every broker. ``say`` prints a sentence
    when a process is started again."""

    def __init__(
        self,
        folder: Path,
        ports: ClusterFile,
        *,
        java: Path,
        jars: Path,
        settings: Sequence[str],
        say: Callable[[str], None],
    ) -> None:
        self._say = say
        self._zookeeper = ZooKeeperServer(
            folder / "zookeeper", ports.zookeeper, java=java, jars=jars, settings=_ZOOKEEPER
        )
        factor = min(_INTERNAL_FACTOR, len(ports.brokers))
        common = [
            f"zookeeper.connect={ports.zookeeper_address}",
            f"offsets.topic.replication.factor={factor}",
            f"transaction.state.log.replication.factor={factor}",
            *settings,
        ]
        self._brokers = [_Broker(folder, each, common) for each in ports.brokers]

    def start(self, is_told_to_stop: Callable[[], bool]) -> bool:
        """Start all processes and wait until they serve. Returns ``False`` if it was told to stop before that.

        Raises ``StorageError`` if a process does not start.
        """
        self._zookeeper.launch()
        self._zookeeper.await_service()
        for broker in self._brokers:
            broker.launch()
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._are_ready():
            if is_told_to_stop():
                return False
            if time.monotonic() > deadline:
                raise StorageError(f"the brokers were not ready within {START_SECONDS_MAX:g} s")
            time.sleep(_PAUSE_S)
        return True

    def _are_ready(self) -> bool:
        """Whether all brokers are ready. It checks every one, so that it raises for a broker that has ended even while
        another is not ready yet."""
        waiting = [broker for broker in self._brokers if not broker.is_ready()]
        return not waiting

    def tend(self) -> None:
        """Start processes again that have ended. Call it regularly."""
        for process in (self._zookeeper.process, *(broker.process for broker in self._brokers)):
            if process.poll() is not None:
                break
        else:
            return
        time.sleep(RESTART_PAUSE_S)
        if self._zookeeper.process.poll() is not None:
            self._say(f"ZooKeeper {_how(self._zookeeper.process)}, and is started again")
            self._zookeeper.launch()
        for broker in self._brokers:
            if broker.process.poll() is not None:
                self._say(f"broker {broker.node_id} {_how(broker.process)}, and is started again")
                broker.launch()

    def stop(self) -> bool:
        """Stop all processes. Returns whether all brokers stopped cleanly, so that the next start has nothing to
        recover."""
        for broker in self._brokers:
            broker.terminate()
        deadline = time.monotonic() + BROKER_STOP_SECONDS_MAX
        unclean = [each for each in self._brokers if not each.has_ended(deadline - time.monotonic())]
        self._zookeeper.stop(within_s=ZOOKEEPER_STOP_SECONDS_MAX)
        return not unclean

    def kill(self) -> None:
        """Kill the processes that still run."""
        for broker in self._brokers:
            broker.kill()
        self._zookeeper.kill()


class _Broker:
    def __init__(self, folder: Path, ports: BrokerPorts, settings: Sequence[str]) -> None:
        self.node_id = ports.node_id
        self._output = folder / f"broker-{ports.node_id}.txt"
        self._pid = folder / f"broker-{ports.node_id}.pid"
        self._command = [sys.executable, "-m", "semel", "serve", "--data-dir", str(folder / f"broker-{ports.node_id}")]
        self._command += ["--listen", ports.address, "--inter-broker-listen", f"{HOST}:{ports.brokers}"]
        for setting in (f"node.id={ports.node_id}", *settings):
            self._command += ["--set", setting]
        self._process: subprocess.Popen[bytes] | None = None
        self._began_at = 0

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the broker was not launched"
        return self._process

    def launch(self) -> None:
        with self._output.open("ab") as output:
            self._began_at = output.tell()
            # In a session of its own, so that Ctrl-C at the terminal reaches only the program that has started it.
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        draft = self._pid.with_suffix(".pid.tmp")
        draft.write_text(f"{self._process.pid}\n")
        draft.replace(self._pid)  # Renamed, so that a script never reads an empty file.

    def is_ready(self) -> bool:
        """Whether the broker serves. Raises ``StorageError``, with the last line that it printed, if it has ended."""
        printed = self._output.read_bytes()[self._began_at :]
        if self.process.poll() is not None:
            lines = printed.decode(errors="replace").strip().splitlines()
            said = lines[-1].removeprefix("semel: ") if lines else f"it {_how(self.process)}"
            raise StorageError(f"broker {self.node_id} did not start: {said}")
        return _READY in printed

    def terminate(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def has_ended(self, within_s: float) -> bool:
        """Whether the broker's process ends within this time, and with exit code 0."""
        if self._process is None:
            return True
        try:
            return self._process.wait(max(within_s, 0.0)) == 0
        except subprocess.TimeoutExpired:
            return False

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            self._pid.unlink(missing_ok=True)


def _how(process: subprocess.Popen[bytes]) -> str:
    code = process.returncode
    return f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
