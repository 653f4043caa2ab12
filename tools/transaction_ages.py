"""Measures how old transactions get: it polls the brokers for undecided transactions and their start times."""

from __future__ import annotations

import threading
from typing import Final

from semel.errors import ErrorCode
from semel.wire.apis import ApiKey
from semel.wire.messages.describe_transactions import DescribeTransactionsRequest
from semel.wire.messages.list_transactions import ListTransactionsRequest
from tools.frames import now_ms
from tools.single_requests import send_request

UNDECIDED: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
_INTERVAL_S: Final = 0.2


class TransactionAges:
    """Polls from a thread of its own within a ``with`` block. While a broker is down it sees nothing."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.oldest_ms = 0
        self.times_seen = 0
        """How many polls found an undecided transaction. If there are none, ``oldest_ms`` means nothing."""
        self._bootstrap_servers = bootstrap_servers
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="transaction-ages", daemon=True)

    def __enter__(self) -> TransactionAges:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopping.wait(_INTERVAL_S):
            try:
                ages = undecided_ages_ms(self._bootstrap_servers)
            except OSError:
                continue
            self.times_seen += bool(ages)
            self.oldest_ms = max(self.oldest_ms, *ages.values(), 0)


def undecided_ages_ms(bootstrap_servers: str) -> dict[str, int]:
    """Return the age of each undecided transaction of all brokers, by transactional id.

    A transaction that is decided between ListTransactions and DescribeTransactions is left out.
    """
    return {name: age for server in bootstrap_servers.split(",") for name, age in _coordinated_by(server).items()}


def _coordinated_by(server: str) -> dict[str, int]:
    listed = send_request(server, ApiKey.LIST_TRANSACTIONS, 1, ListTransactionsRequest(list(UNDECIDED)))
    names = [state.transactional_id for state in listed.transaction_states]
    if not names:
        return {}
    described = send_request(server, ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(names))
    return {
        state.transactional_id: now_ms() - state.transaction_start_time_ms
        for state in described.transaction_states
        if state.error_code == ErrorCode.NONE and state.transaction_state in UNDECIDED
    }
