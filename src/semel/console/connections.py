"""The admin clients of the console: one for all visitors, or one for each login.

If the settings say SASL and name no user, visitors log in as users of the brokers. A page then uses that user's
connection: the brokers alone authorize what the page shows and changes, with the ACLs of this user.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from semel.blocking import Admin
from semel.console.answer_cache import AnswerCache
from semel.console.rates import Rates

LOGINS_MAX: Final = 100
IDLE_SECONDS_MAX: Final = 30 * 60.0
_TIMEOUT_MS: Final = 6_000
_COUNTS_MAX: Final = 20_000
"""How many lags are cached, a number each. It is enough for 10,000 partitions."""
_CREDENTIALS: Final = (
    "sasl_username",
    "sasl_jaas_config",
    "sasl_oauthbearer_token_endpoint_url",
    "sasl_oauthbearer_client_credentials_client_id",
)
_MECHANISM: Final = "SCRAM-SHA-512"


class Connection:
    """An admin client, with a cache of its latest answers."""

    def __init__(
        self, settings: Mapping[str, Any], user: str | None = None, make_admin: Callable[..., Admin] = Admin
    ) -> None:
        # A page must not wait a minute, Kafka's default, for a broker that cannot be reached.
        self.settings = {"default_api_timeout_ms": _TIMEOUT_MS, "client_id": "semel-console", **settings}
        self.user = user
        self.admin = make_admin(**self.settings)
        self.answers = AnswerCache()
        self.counts = AnswerCache(answers_max=_COUNTS_MAX)
        self.rates = Rates(time.monotonic)
        self.used_at = time.monotonic()

    @property
    def servers(self) -> str:
        return str(self.settings["bootstrap_servers"])

    def close(self) -> None:
        self.admin.close()


def wants_login(settings: Mapping[str, Any]) -> bool:
    """Whether the settings say SASL and name no user, so that visitors have to log in."""
    protocol = str(settings.get("security_protocol", "PLAINTEXT")).upper()
    return protocol.startswith("SASL") and not any(settings.get(name) for name in _CREDENTIALS)


class Connections:
    """The one connection of a console without logins, or those of the visitors that have logged in."""

    def __init__(self, settings: Mapping[str, Any], make_admin: Callable[..., Admin] = Admin) -> None:
        self._settings = dict(settings)
        self._make_admin = make_admin
        self.with_login = wants_login(settings)
        self._lock = threading.Lock()
        self._by_session: OrderedDict[str, Connection] = OrderedDict()
        self._shared = None if self.with_login else Connection(settings, None, make_admin)

    @property
    def servers(self) -> str:
        return str(self._settings["bootstrap_servers"])

    def of(self, session: str) -> Connection | None:
        """Return the connection of a session; ``None`` if the visitor has to log in first."""
        if self._shared is not None:
            return self._shared
        self._end_idle()
        with self._lock:
            found = self._by_session.get(session)
            if found is not None:
                found.used_at = time.monotonic()
                self._by_session.move_to_end(session)
            return found

    def log_in(self, session: str, user: str, password: str) -> None:
        """Open a connection as this user for the session.

        Raises KafkaError (SASL_AUTHENTICATION_FAILED) if the brokers refuse the user or the password.
        """
        settings = {"sasl_mechanism": _MECHANISM, **self._settings, "sasl_username": user, "sasl_password": password}
        connection = Connection(settings, user, self._make_admin)
        try:
            connection.admin.cluster.describe()
        except BaseException:
            connection.close()
            raise
        ended: list[Connection] = []
        with self._lock:
            before = self._by_session.pop(session, None)
            ended += [] if before is None else [before]
            self._by_session[session] = connection
            while len(self._by_session) > LOGINS_MAX:
                ended.append(self._by_session.popitem(last=False)[1])
        for old in ended:
            old.close()

    def log_out(self, session: str) -> None:
        with self._lock:
            connection = self._by_session.pop(session, None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        with self._lock:
            connections = [*self._by_session.values()]
            self._by_session.clear()
        for connection in [*connections, *([] if self._shared is None else [self._shared])]:
            connection.close()

    def _end_idle(self) -> None:
        until = time.monotonic() - IDLE_SECONDS_MAX
        with self._lock:
            idle = [session for session, connection in self._by_session.items() if connection.used_at < until]
            ended = [self._by_session.pop(session) for session in idle]
        for connection in ended:
            connection.close()
