"""The processes of a local cluster: started, watched, and stopped in bounded time.

ZooKeeper first, then the brokers; the other way round when it ends, because a broker that stops tells ZooKeeper. A
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

# A broker ends itself before that (``cli.stop_signals``).
BROKER_STOP_SECONDS_MAX: Final = 10.0
ZOOKEEPER_STOP_SECONDS_MAX: Final = 3.0
RESTART_PAUSE_S: Final = 2.0
_PAUSE_S: Final = 0.05
_READY: Final = b"semel ready on "
_INTERNAL_FACTOR: Final = 3
# The brokers' zookeeper.session.timeout.ms, 6 s, has to be between 2 and 20 ticks.
_ZOOKEEPER: Final = "tickTime=1000\nautopurge.purgeInterval=1\nautopurge.snapRetainCount=3\n"


class LocalCluster:
    """``settings`` are ``KEY=VALUE`` for every broker. ``say`` tells what happens on the way, in one sentence."""

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
        """Returns whether all serve; else it was told to stop meanwhile. Raises StorageError."""
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
        """All are looked at: one that did not start is told even if another is not ready."""
        waiting = [broker for broker in self._brokers if not broker.is_ready()]
        return not waiting

    def tend(self) -> None:
        """Start again what has ended. To be called now and then."""
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
        """Whether that was clean: the next start has nothing to recover."""
        for broker in self._brokers:
            broker.terminate()
        deadline = time.monotonic() + BROKER_STOP_SECONDS_MAX
        unclean = [each for each in self._brokers if not each.has_ended(deadline - time.monotonic())]
        self._zookeeper.stop(within_s=ZOOKEEPER_STOP_SECONDS_MAX)
        return not unclean

    def kill(self) -> None:
        """End what still runs, as it is."""
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
            # In a session of its own: Ctrl-C at the terminal is for the program that started it.
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        draft = self._pid.with_suffix(".pid.tmp")
        draft.write_text(f"{self._process.pid}\n")
        draft.replace(self._pid)  # So that a script that reads it never finds it empty.

    def is_ready(self) -> bool:
        """Raises StorageError with the broker's own words if it has ended."""
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
        """Whether it has come to rest, in time."""
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
