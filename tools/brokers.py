"""The brokers that tests and benchmarks compare: Semel as ``semel serve``, and Apache Kafka from its jars."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from semel.testing import certificate
from tools.kafka_jars import KAFKA_4, jars_of, java
from tools.ports import HOST, free_port
from tools.server import Launch, Server

# A test or a benchmark uses one broker: nothing can be replicated. A new group does not wait for more members.
_ONE_NODE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


def semel(
    folder: Path,
    *,
    settings: Mapping[str, str] | None = None,
    advertise: str | None = None,
    checkout: Path | None = None,
    secured: Sequence[str] = (),
) -> Server:
    """Return a Semel broker with its data under ``folder``. It is not started yet.

    ``checkout`` is the root of another version of this repository, whose source is run instead of the installed one.
    ``secured`` are the security protocols of further listeners, on ports of their own. With TLS they have the
    certificate of ``semel.testing``, unless the settings name another.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port, metrics_port = free_port(), free_port()
    command = [str(Path(sys.executable).with_name("semel")), "serve"]
    command += ["--data-dir", str(folder / "data"), "--metrics", f"{HOST}:{metrics_port}"]
    ports = {protocol: free_port() for protocol in secured}
    if secured:
        listeners = [f"{protocol}://{HOST}:{at}" for protocol, at in {"PLAINTEXT": port, **ports}.items()]
        settings = {"listeners": ",".join(listeners), **_certificate(folder, secured), **(settings or {})}
    else:
        command += ["--listen", f"{HOST}:{port}"]
    if advertise is not None:
        command += ["--advertise", advertise]
    for key, value in (settings or {}).items():
        command += ["--set", f"{key}={value}"]
    environment = {} if checkout is None else {"PYTHONPATH": str(checkout.resolve() / "src")}
    data_dir, output = folder / "data", folder / "output.txt"
    return Server(Launch("Semel", command, port, data_dir, output, metrics_port, environment, ports))


def apache_kafka(
    folder: Path,
    *,
    version: str = KAFKA_4,
    settings: Mapping[str, str] | None = None,
    heap: str = "1g",
    secured: Sequence[str] = (),
) -> Server:
    """Return an Apache Kafka broker that is its own controller, with formatted data under ``folder``. It is not started
    yet.

    ``secured`` are the security protocols of further listeners, as for ``semel``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port, controller_port = free_port(), free_port()
    ports = {protocol: free_port() for protocol in secured}
    listeners = ",".join(f"{protocol}://{HOST}:{at}" for protocol, at in {"PLAINTEXT": port, **ports}.items())
    data_dir, properties = folder / "data", folder / "server.properties"
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{listeners},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": ",".join(
            ("CONTROLLER:PLAINTEXT", "PLAINTEXT:PLAINTEXT", *(f"{protocol}:{protocol}" for protocol in secured))
        ),
        **_certificate(folder, secured),
        "log.dirs": str(data_dir),
        **_ONE_NODE,
        **(settings or {}),
    }
    properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    cluster_id = "c2VtZWwtcGVlci1rYWZrYQ"
    run_java("kafka.tools.StorageTool", ["format", "-t", cluster_id, "-c", str(properties)], version=version)
    command = [java(), f"-Xmx{heap}", f"-Xms{heap}", *_java_options(version), "kafka.Kafka", str(properties)]
    launch = Launch(f"Apache Kafka {version}", command, port, data_dir, folder / "output.txt", secured_ports=ports)
    return Server(launch)


def _certificate(folder: Path, secured: Sequence[str]) -> dict[str, str]:
    """Return the settings for a certificate of localhost, the same for both brokers; none if no listener has TLS."""
    if not any(protocol.endswith("SSL") for protocol in secured):
        return {}
    file = folder / "broker.pem"
    file.write_text(certificate.PRIVATE_KEY + certificate.CERTIFICATE)
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(file)}


def run_java(main_class: str, arguments: Sequence[str], *, version: str = KAFKA_4) -> str:
    """Run a program from Kafka's jars and return its output. Raises JavaFailed if it ends with an error."""
    command = [java(), *_java_options(version), main_class, *arguments]
    # Kafka's tools print some findings to stderr: it goes to the same pipe as stdout, to keep the order of lines.
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise JavaFailed(f"{main_class} ended with code {done.returncode}", done.stdout)
    return done.stdout


class JavaFailed(Exception):
    def __init__(self, message: str, output: str) -> None:
        super().__init__(f"{message}: {output[-2000:]}")
        self.output = output


def _java_options(version: str) -> list[str]:
    return ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", f"{jars_of(version)}/*"]
