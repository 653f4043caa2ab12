"""What a console with three open pages takes from a broker: ``python -m benchmarks.console``.

Eight transactional producers commit as fast as they can, for some seconds without visitors and then for some with
three: the overview, the list of transactions, and the life of one of the producers' ids. Without visitors the console
asks nothing. Rates on a shared machine differ by more than what is looked for, so processor time is compared: what the
broker used beyond the commits of that time, at the price of a commit without visitors before and after.
"""

from __future__ import annotations

import http.client
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from benchmarks.processors import Watch
from benchmarks.topics import fresh_topic
from benchmarks.transactions import PARTITIONS, semel_load
from tools.brokers import semel
from tools.console_pictures import console
from tools.server import Server, running

_PRODUCERS: Final = 8
_ROUNDS: Final = 8
_SECONDS: Final = 6.0
_PAGES: Final = ("/", "/transactions", "/transaction?id={transactional_id}")


class Round(NamedTuple):
    commits_per_s: float
    broker_cores: float

    @property
    def seconds_per_commit(self) -> float:
        return self.broker_cores / self.commits_per_s


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="semel-console-bench-") as folder,
        running(semel(Path(folder))) as server,
        console(server.bootstrap_servers) as address,
        fresh_topic(server, PARTITIONS) as topic,
    ):
        _round(server, topic)  # The one that opens files and imports.
        without = [_round(server, topic)]
        seen: list[Round] = []
        taken = []
        print("| commits/s without | with three pages | broker's core for the console |")
        print("|--:|--:|--:|")
        for _ in range(_ROUNDS):
            # Producers are numbered through all rounds.
            with visitors(address, f"bench-{_PRODUCERS * (1 + len(without) + len(seen))}"):
                seen.append(_round(server, topic))
            without.append(_round(server, topic))
            price = sum(one.seconds_per_commit for one in without[-2:]) / 2
            taken.append(seen[-1].broker_cores - seen[-1].commits_per_s * price)
            print(f"| {without[-1].commits_per_s:,.0f} | {seen[-1].commits_per_s:,.0f} | {100 * taken[-1]:.1f} % |")
        rates = [median(one.commits_per_s for one in rounds) for rounds in (without, seen)]
        print(f"| **{rates[0]:,.0f}** | **{rates[1]:,.0f}** | **{100 * median(taken):.1f} %** |")


def _round(server: Server, topic: str) -> Round:
    watch = Watch(server)
    taken_ms, elapsed_s = semel_load(server, topic, _PRODUCERS, 1, _SECONDS)
    return Round(len(taken_ms) / elapsed_s, watch.broker_seconds() / elapsed_s)


@contextmanager
def visitors(address: str, transactional_id: str) -> Iterator[None]:
    """Browsers with the pages open: each reads the event stream of its page."""
    with ExitStack() as stack:
        for path in _PAGES:
            stack.enter_context(_visitor(address, path.format(transactional_id=transactional_id)))
        yield


@contextmanager
def _visitor(address: str, path: str) -> Iterator[None]:
    connection = http.client.HTTPConnection(address.removeprefix("http://").rstrip("/"), timeout=60)
    connection.request("GET", path, headers={"Accept": "text/event-stream"})
    response = connection.getresponse()
    assert response.status == 200, response.read()
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set() and response.readline():
            pass

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield
    finally:
        is_over.set()
        reader.join()  # The stream brings a line every few seconds, changed or not.
        connection.close()


if __name__ == "__main__":
    main()
