"""A process of Apicurio Registry that keeps its schemas in topics (KafkaSQL), and its Confluent-compatible API."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tools.kafka_jars import SCHEMA_REGISTRY, application_jars, registry_java
from tools.patience import PATIENCE_MS, PATIENCE_S
from tools.ports import HOST, free_port

JOURNAL = "kafkasql-journal"
"""The topic, of one partition, with every change in order. Each start reads it from its beginning."""

_SETTINGS = {
    "apicurio.storage.kind": "kafkasql",
    "apicurio.kafkasql.topic": JOURNAL,
    # At its start it waits so long for the first snapshot, and there is none.
    "apicurio.kafkasql.consumer.poll.timeout": "200",
    # Neither a registration nor the membership in its group ends because the machine is busy.
    "apicurio.kafkasql.coordinator.response-timeout": str(PATIENCE_MS),
    "apicurio.kafkasql.consumer.session.timeout.ms": str(PATIENCE_MS),
    "quarkus.http.host": HOST,
    "quarkus.management.host": HOST,
    "quarkus.log.level": "WARN",
}

# It starts in half the time: most of that is code that runs once.
_QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")


class ApicurioRegistry:
    """One registry, whose process is started, killed and started again at the same address."""

    def __init__(self, folder: Path, bootstrap_servers: str) -> None:
        folder.mkdir()
        port, management_port = free_port(), free_port()
        self.url = f"http://{HOST}:{port}/apis/ccompat/v7"
        self._readiness = f"http://{HOST}:{management_port}/health/ready"
        self._folder, self._output = folder, folder / "output.txt"
        settings = {
            **_SETTINGS,
            "apicurio.kafkasql.bootstrap.servers": bootstrap_servers,
            "apicurio.storage.snapshot.location": str(folder),
            "quarkus.http.port": str(port),
            "quarkus.management.port": str(management_port),
            "java.io.tmpdir": str(folder),
        }
        properties = [f"-D{key}={value}" for key, value in settings.items()]
        program = application_jars(SCHEMA_REGISTRY).resolve() / "quarkus-run.jar"
        self._command = [registry_java(), *_QUICK_START, *properties, "-jar", str(program)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process and return at once, before it is ready."""
        assert self._process is None, "the registry runs already"
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=subprocess.STDOUT, cwd=self._folder)

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

    def is_ready(self) -> bool:
        """Whether it has read the journal up to its own start. Before that it answers as if it were empty."""
        try:
            _ask(self._readiness)
        except OSError:
            return False
        return True

    def get(self, path: str) -> Any:
        """Raises OSError."""
        return _ask(self.url + path)

    def register(self, subject: str, kind: str, schema: str) -> int:
        """The id of the schema, which becomes the subject's latest version if it is none yet. Raises OSError."""
        body = json.dumps({"schemaType": kind, "schema": schema}).encode()
        return int(_ask(f"{self.url}/subjects/{subject}/versions", body)["id"])

    def printed(self) -> str:
        """The end of what the process printed, for the message of a failure."""
        return self._output.read_text(errors="replace")[-6000:]

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "the registry does not run"
        self._process.send_signal(number)


def _ask(url: str, body: bytes | None = None) -> Any:
    """Raises OSError for an error, and if the answer breaks off: the registry may be killed within it."""
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=PATIENCE_S) as response:
            return json.load(response)
    except urllib.error.HTTPError as refusal:
        refusal.close()
        raise
    except http.client.HTTPException as broken:
        raise ConnectionError(repr(broken)) from None
