"""``semel.Admin``, the admin client for asyncio; threads use ``semel.blocking``."""

from __future__ import annotations

from contextlib import AbstractContextManager
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any, Unpack

from semel import __version__
from semel.client.admin.acls import Acls
from semel.client.admin.admin_requests import AdminRequests
from semel.client.admin.cluster import Cluster
from semel.client.admin.configs import Configs
from semel.client.admin.groups import Groups
from semel.client.admin.partitions import Partitions
from semel.client.admin.quotas import Quotas
from semel.client.admin.topics import Topics
from semel.client.admin.transactions import Transactions
from semel.client.admin.users import Users
from semel.client.config.admin import AdminConfig
from semel.client.machine.admin.admin import AdminMachine
from semel.client.security.tls import network_for
from semel.clock import Clock, SystemClock
from semel.net.network import Network

if TYPE_CHECKING:
    from semel.client.config.keywords import AdminSettings


class Admin:
    """An admin client: describes and changes a cluster of Kafka or Semel.

        async with Admin(bootstrap_servers="localhost:9092") as admin:
            await admin.topics.create("orders", partitions=6, configs={"retention.ms": 86_400_000})
            for found in await admin.transactions.find_hanging():
                print(found)

    Settings are Kafka's, as keywords with underscores, with Kafka's defaults. Each part has its own calls: ``topics``,
    ``configs``, ``partitions``, ``groups``, ``cluster``, ``transactions``, ``acls``, ``quotas``, ``users``.

    A call about one thing returns its value or raises; a call about many returns ``Results``, with a value or an error
    for each. Every request is sent to the broker that serves it, and again while that may help, until
    ``default_api_timeout_ms`` is over. ``network``, ``clock`` and ``random`` are for simulations. An admin client
    belongs to one event loop.
    """

    def __init__(
        self,
        *,
        network: Network | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        guard: AbstractContextManager[Any] | None = None,
        **settings: Unpack[AdminSettings],
    ) -> None:
        self._config = AdminConfig.load(settings)
        random = random or SystemRandom()
        self._machine = AdminMachine(self._config, random, software_version=__version__)
        self._requests = AdminRequests(
            self._config,
            self._machine,
            network=network or network_for(self._config.client.security),
            clock=clock or SystemClock(),
            random=random,
            guard=guard,
        )
        self.topics = Topics(self._requests)
        self.configs = Configs(self._requests)
        self.partitions = Partitions(self._requests)
        self.groups = Groups(self._requests)
        self.cluster = Cluster(self._requests)
        self.transactions = Transactions(self._requests)
        self.acls = Acls(self._requests)
        self.quotas = Quotas(self._requests)
        self.users = Users(self._requests)

    async def start(self) -> None:
        """Start in the loop that this is called from. ``async with`` does it, and so does the first call.

        admin = Admin(bootstrap_servers="localhost:9092")
        await admin.start()
        """
        self._requests.running()

    def metrics(self) -> dict[str, float]:
        """Return counts of requests and responses since this client was made, under Kafka's names: see docs/client.md.

        print(admin.metrics()["request-latency-max"])
        """
        return self._requests.metrics()

    async def close(self) -> None:
        """Close all connections. Calls that are not answered yet fail, and say whether they may have been served.

        await admin.close()
        """
        await self._requests.close()

    async def __aenter__(self) -> Admin:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        servers = ",".join(map(str, self._config.client.bootstrap_servers))
        waiting = self._requests.open_calls
        doing = f" waiting for {', '.join(waiting[:3])}{', ...' if len(waiting) > 3 else ''}" if waiting else ""
        return f"<Admin {servers} {'closed' if self._requests.is_closed else 'open'}{doing}>"
