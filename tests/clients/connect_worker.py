"""A distributed worker of Kafka Connect 4.3, from Kafka's own jars, with exactly-once sources."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from semel.inspection.termination import terminate_transaction
from tools.kafka_jars import KAFKA_4, jars_of, java
from tools.patience import PATIENCE_MS, PATIENCE_S
from tools.ports import HOST, free_port

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_GROUP = "connect"
_SETTINGS = {
    "group.id": _GROUP,
    "exactly.once.source.support": "enabled",
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "offset.storage.partitions": "1",
    "status.storage.partitions": "1",
    "key.converter": _JSON,
    "value.converter": _JSON,
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
    # A killed worker is a member of the group until its session ends: the next one has to wait for that.
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": "0",
    # A live transaction does not end because the machine is busy; that of a killed worker is terminated.
    "producer.transaction.timeout.ms": str(PATIENCE_MS),
    # Otherwise it looks into every class of every jar when it starts.
    "plugin.discovery": "service_load",
}


class ConnectWorker:
    """One worker, whose process is started, killed and started again."""

    def __init__(self, folder: Path, bootstrap_servers: str, plugin: Path) -> None:
        """``plugin``: the folder with a connector's jars."""
        # Connect looks for plugins in the folders of a folder.
        plugins = folder / "plugins"
        plugins.mkdir(parents=True)
        (plugins / plugin.name).symlink_to(plugin.resolve(), target_is_directory=True)
        self._bootstrap_servers = bootstrap_servers
        self._url = f"http://{HOST}:{free_port()}"
        own = {"bootstrap.servers": bootstrap_servers, "listeners": self._url, "plugin.path": str(plugins)}
        self._properties, self._output = folder / "worker.properties", folder / "output.txt"
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in {**_SETTINGS, **own}.items()))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process and return at once, before it is ready."""
        assert self._process is None, "the worker runs already"
        options = ["-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{jars_of(KAFKA_4)}/*"]
        command = [java(), *options, "org.apache.kafka.connect.cli.ConnectDistributed", str(self._properties)]
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    def pause(self) -> None:
        """Let the process stand still where it is."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the process with SIGKILL; nothing happens when it does not run."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def terminate_transaction(self, connector: str) -> None:
        """End the transaction that the connector's first task had open when the process was killed.

        A worker does not start before it has read the topic of offsets up to the end, and such a transaction holds it
        up until its timeout. An operator who does not want to wait does this, too: ``semel txn terminate``.
        """
        settings = {"bootstrap_servers": self._bootstrap_servers}
        terminate_transaction(settings, f"{_GROUP}-{connector}-0", timeout_ms=PATIENCE_MS)

    def accepts(self, connector: str, config: Mapping[str, str]) -> bool:
        """Whether the worker has taken a connector with this config; it does not as long as it starts."""
        answer = self._ask("PUT", f"/connectors/{connector}/config", json.dumps(config).encode())
        return bool(answer.get("name") == connector)

    def told(self, connector: str) -> str:
        """The connector's status and the end of what the process printed, for the message of a failure."""
        status = self._ask("GET", f"/connectors/{connector}/status")
        return f"{status}\n{self._output.read_text(errors='replace')[-6000:]}"

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "the worker does not run"
        self._process.send_signal(number)

    def _ask(self, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
                answer: dict[str, Any] = json.load(response)
        except urllib.error.HTTPError as refusal:
            answer = {"status": refusal.code, "body": refusal.read().decode(errors="replace")}
        except OSError as error:
            answer = {"error": str(error)}
        return answer
