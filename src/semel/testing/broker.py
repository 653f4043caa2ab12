"""A real broker inside a test: on a port of its own, in a background thread, with its data in memory or in a folder.

    with Broker(num_partitions=4) as broker:
        ...                          # any client, at broker.bootstrap_servers
        broker.restart(kill=True)    # as after kill -9, with the same data on the same port
        broker.faults.drop_response("Produce")
        broker.clock.advance(minutes=15)
        broker.committed("orders")   # what a read_committed reader sees

    with Broker(tls=True, users={"alice": "secret"}) as broker:
        Producer(bootstrap_servers=broker.bootstrap_servers, **broker.client_security)

It is the broker that ``semel serve`` runs, with all its guarantees except one: data in memory is lost when the fixture
ends.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from semel.broker.broker import Broker as RealBroker
from semel.client.values import ConsumerRecord
from semel.log.disk import Disk
from semel.testing.committed import committed_records, has_open_transaction
from semel.testing.faults import Faults
from semel.testing.loop_thread import LoopThread
from semel.testing.served_broker import HOST, ServedBroker
from semel.testing.shifted_time import ShiftedClock

if TYPE_CHECKING:
    from semel.security.acls import AclBinding

T = TypeVar("T")


class Broker:
    """A broker of a test. Start it with ``with``, ``async with`` or ``start()``.

    ``settings`` are Kafka's settings, with ``_`` for ``.``.
    With ``tls`` it uses TLS, with a certificate for localhost that is only for tests (``testing.certificate``).
    With ``users``, passwords by user name, clients must authenticate: with SCRAM-SHA-256, SCRAM-SHA-512 or, if there is
    TLS, PLAIN. With ``acls`` these rules authorize requests (``semel.admin.AclBinding``); the setting
    ``super_users="User:admin"`` names a user that may do everything.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        tls: bool = False,
        users: Mapping[str, str] | None = None,
        acls: Collection[AclBinding] | None = None,
        **settings: object,
    ) -> None:
        self._tls = tls
        self._users = dict(users or {})
        self._acls = tuple(acls or ())
        self._is_plain = not tls and not users and acls is None
        if not self._is_plain:
            from semel.testing.secured import broker_settings

            secured = broker_settings(HOST, tls=tls, users=bool(users), acls=acls is not None)
            settings = {**secured, **settings}
        self.clock = ShiftedClock()
        self.faults = Faults(self._move_coordinator)
        self._served = ServedBroker(data_dir, settings, self.clock, self.faults)
        self._thread = LoopThread(self.clock)

    @property
    def disk(self) -> Disk:
        return self._served.disk

    @property
    def port(self) -> int:
        assert self._served.address.port, "the broker was never started"
        return self._served.address.port

    @property
    def bootstrap_servers(self) -> str:
        return self._served.bootstrap_servers

    @property
    def addresses(self) -> dict[str, str]:
        """The addresses that clients connect to, by listener name. ``bootstrap_servers`` is the first."""
        return {name: str(address) for name, address in self._served.addresses.items()}

    @property
    def client_security(self) -> dict[str, str]:
        """The keyword arguments for TLS and SASL with which a client of Semel connects, as the first user if any."""
        return {} if self._is_plain else self.client_security_of(next(iter(self._users), None))

    def client_security_of(self, user: str | None) -> dict[str, str]:
        """The keyword arguments for TLS and SASL with which a client of Semel connects as this user."""
        from semel.testing.secured import client_settings

        return client_settings(tls=self._tls, user=None if user is None else (user, self._users[user]))

    def start(self) -> Broker:
        assert not self._thread.is_running, "the broker is running already"
        self._thread.start()
        try:
            self._call(self._served.start())
            if self._users or self._acls:
                from semel.testing.secured import secure

                self._call(secure(self._served.node, self._users, self._acls))
        except BaseException:
            self._thread.end()
            raise
        return self

    def stop(self, *, kill: bool = False) -> None:
        """Stop the broker: cleanly, or as ``kill -9`` would. It has released port, thread and files on return."""
        if not self._thread.is_running:
            return
        try:
            self._call(self._served.stop(kill=kill))
        finally:
            self._thread.end()

    def restart(self, *, kill: bool = False) -> None:
        """Stop the broker and start it again, with the same data and on the same port."""
        self._call(self._served.stop(kill=kill))
        self._call(self._served.start())

    def committed(self, topic: str, partition: int | None = None) -> list[ConsumerRecord]:
        """Return the records of the topic that a read_committed consumer sees now, ordered by partition and offset."""

        async def read() -> list[ConsumerRecord]:
            return committed_records([self._served.node], topic, partition)

        return self._call(read())

    def has_open_transaction(self, topic: str) -> bool:
        """Whether a transaction with records in the topic has neither been committed nor aborted yet."""

        async def look() -> bool:
            return has_open_transaction([self._served.node], topic)

        return self._call(look())

    @property
    def _broker(self) -> RealBroker | None:
        return self._served.broker

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return self._thread.call(work)

    def _move_coordinator(self, name: str, away_seconds: float) -> None:
        self._call(self._served.move_coordinator(name, away_seconds))

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    async def __aenter__(self) -> Broker:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *exception: object) -> None:
        await asyncio.to_thread(self.stop)
