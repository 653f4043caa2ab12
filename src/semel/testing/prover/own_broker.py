"""A new broker in this process for one trial, with its data in memory and a clock that can be set forward."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Final

from semel.client.values import ConsumerRecord
from semel.testing.broker import Broker
from semel.testing.faults import Faults
from semel.testing.prover.input import write_input
from semel.testing.prover.records import Records

# More than the session timeout of most clients (45 s), less than their transaction timeout (60 s): the transaction of a
# stopped process must be ended by fencing and not by its timeout.
_SESSION_SECONDS: Final = 50.0
# transaction.max.timeout.ms is 15 minutes.
_TRANSACTION_MINUTES: Final = 16.0
_SETTLE_SECONDS_MAX: Final = 30.0


class OwnBroker:
    can_restart = True

    def __init__(self, broker: Broker, partitions: int) -> None:
        self._broker = broker
        self._partitions = partitions

    @property
    def faults(self) -> Faults:
        return self._broker.faults

    @property
    def bootstrap_servers(self) -> str:
        return self._broker.bootstrap_servers

    def fill(self, given: Records, *, aborts: bool) -> None:
        write_input(self._broker.bootstrap_servers, given, self._partitions, aborts=aborts)

    def expire_members(self) -> None:
        self._broker.clock.advance(seconds=_SESSION_SECONDS)

    def settle(self, topic: str) -> None:
        with contextlib.suppress(KeyError):  # The topic does not exist: the application never wrote to it.
            if self._broker.has_open_transaction(topic):
                self._broker.clock.advance(minutes=_TRANSACTION_MINUTES)
            until = time.monotonic() + _SETTLE_SECONDS_MAX
            while self._broker.has_open_transaction(topic) and time.monotonic() < until:
                time.sleep(0.01)

    def committed(self, topic: str) -> list[ConsumerRecord]:
        try:
            return self._broker.committed(topic)
        except KeyError:
            return []

    def restart(self, *, kill: bool) -> None:
        self._broker.restart(kill=kill)


@contextlib.contextmanager
def own_broker(partitions: int, settings: Mapping[str, object]) -> Iterator[OwnBroker]:
    # A new group does not wait for more members, which would only make the trial longer.
    defaults = {"group_initial_rebalance_delay_ms": 0}
    with Broker(**{"num_partitions": partitions, **defaults, **settings}) as broker:  # type: ignore[arg-type]
        yield OwnBroker(broker, partitions)
