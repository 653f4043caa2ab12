"""``cluster.json`` in the folder of a local cluster: its brokers and all ports, which are the same at every start."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Final

from semel.errors import StorageError

HOST: Final = "127.0.0.1"
FILE: Final = "cluster.json"
_PORT_MAX: Final = 65_535
# Below the ports that systems use for outgoing connections (from 32768 on Linux, from 49152 elsewhere).
_FREE: Final = range(10_000, 30_000)


@dataclass(frozen=True, slots=True)
class BrokerPorts:
    node_id: int
    clients: int
    brokers: int

    @property
    def address(self) -> str:
        return f"{HOST}:{self.clients}"


@dataclass(frozen=True, slots=True)
class ClusterFile:
    zookeeper: int
    brokers: tuple[BrokerPorts, ...]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    @property
    def zookeeper_address(self) -> str:
        return f"{HOST}:{self.zookeeper}"

    @property
    def ports(self) -> list[int]:
        return [self.zookeeper, *(port for each in self.brokers for port in (each.clients, each.brokers))]

    @classmethod
    def planned(cls, brokers: int, first_port: int) -> ClusterFile:
        """Assign consecutive ports from ``first_port`` on, first for clients, then between brokers, then for ZooKeeper.

        With 0 the ports are any free ones. Raises ``ValueError``.
        """
        count = 2 * brokers + 1
        first = first_port or _first_of_free(count)
        ports = range(first, first + count)
        if not 0 < first <= ports[-1] <= _PORT_MAX:
            raise ValueError(f"{brokers} brokers need the ports {first} to {ports[-1]}; there are 1 to {_PORT_MAX}")
        clients, others = ports[:brokers], ports[brokers:-1]
        return cls(ports[-1], tuple(map(BrokerPorts, range(1, brokers + 1), clients, others)))

    @classmethod
    def read(cls, folder: Path) -> ClusterFile | None:
        """Read the file; ``None`` if no cluster was ever started in the folder. Raises ``StorageError``."""
        try:
            document = json.loads((folder / FILE).read_text())
            brokers = tuple(BrokerPorts(each["id"], each["clients"], each["brokers"]) for each in document["brokers"])
            return cls(document["zookeeper"], brokers)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StorageError(f"{folder / FILE} does not say which cluster this is: {error!r}") from None

    def write(self, folder: Path) -> None:
        brokers = [{"id": each.node_id, "clients": each.clients, "brokers": each.brokers} for each in self.brokers]
        draft = folder / f"{FILE}.new"
        draft.write_text(json.dumps({"zookeeper": self.zookeeper, "brokers": brokers}, indent=2) + "\n")
        os.replace(draft, folder / FILE)


def _first_of_free(count: int) -> int:
    """Return the first of ``count`` consecutive ports that are free now. The system does not use them for outgoing
    connections, so they stay free while a broker is away."""
    while True:
        first = SystemRandom().choice(_FREE)
        with contextlib.ExitStack() as probes, contextlib.suppress(OSError):
            for port in range(first, first + count):
                probes.enter_context(socket.create_server((HOST, port)))
            return first
