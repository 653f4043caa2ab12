"""What it costs to know many transactional ids: starting with them, keeping them, and serving one among them.

A transaction must cost the same whether ten ids are known or a million, and however long the logs are that it writes
to. The ids are written into the log files of a stopped broker, one batch each, as compaction would leave them; asking a
broker for a million ids would measure a million syncs.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from benchmarks.contestants import SEMEL_OS, Contestant
from benchmarks.librdkafka import produce_for
from benchmarks.measuring import Effort, LifecycleWorkload, Measured, Row
from benchmarks.processors import Watch
from benchmarks.raw_load import connected
from benchmarks.transactions import PARTITIONS, UNMEASURED, semel_load
from semel.coordinator.partitioning import partition_for
from semel.coordinator.transaction.records import NO_PARTITIONS, Transaction, encode
from semel.coordinator.transaction.states import TxnState
from semel.errors import ErrorCode
from semel.types import TRANSACTION_STATE_TOPIC
from semel.wire.apis import APIS, ApiKey
from semel.wire.codec import decode
from semel.wire.framing import decode_response_header, encode_request
from semel.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from semel.wire.records import build_single, iterate_headers
from tools.frames import now_ms, receive_frame
from tools.load import create_topic
from tools.server import Server, running

FEW_IDS: Final = 10

_SHARDS: Final = 50
_PRODUCER_IDS_FROM: Final = 1_000_000_000
_LOG_BYTES: Final = 500_000_000
_TURNS: Final = 4


def ids_start_workload(loaded: Row, memory: Row) -> LifecycleWorkload:
    """From launching the process until every id is served, and the memory that they take."""

    def measure(contestant: Contestant, folder: Path, effort: Effort) -> Measured:
        server = contestant.make(folder)
        know(server, effort.known_ids)
        taken_s = []
        for _ in range(effort.starts):
            started = time.perf_counter()
            server.start()
            wait_until_loaded(server)
            taken_s.append(time.perf_counter() - started)
            resident = server.resident_bytes()
            server.stop()
        return Measured({loaded.key: sorted(taken_s)[len(taken_s) // 2], memory.key: resident / 1e6})

    return LifecycleWorkload(loaded.title, (loaded, memory), measure, only=frozenset({SEMEL_OS}))


def ids_cost_workload(few: Row, many: Row, long_log: Row) -> LifecycleWorkload:
    """The broker's processor time for one transaction: with few ids, with many, and on a topic with a long log.

    Measured in turns, with the least that each of them took: it is small differences that are looked for.
    """

    def measure(contestant: Contestant, folder: Path, effort: Effort) -> Measured:
        rows = {
            few: (FEW_IDS, 0),
            many: (effort.known_ids, 0),
            long_log: (FEW_IDS, int(_LOG_BYTES * effort.known_ids / 1_000_000)),
        }
        servers = {row: contestant.make(folder / row.key) for row in rows}
        taken_ms: dict[str, list[float]] = {row.key: [] for row in rows}
        for row, server in servers.items():
            know(server, rows[row][0])
        with ExitStack() as stack:
            for row, server in servers.items():
                stack.enter_context(running(server))
                wait_until_loaded(server)
                create_topic(server.bootstrap_servers, row.key, partitions=PARTITIONS)
                if log_bytes := rows[row][1]:
                    produce_for(server, row.key, 1000, 1_000_000, total_bytes=log_bytes)
            for _ in range(_TURNS):
                for row, server in servers.items():
                    watch = Watch(server)
                    transactions, _ = semel_load(server, row.key, 8, 1, effort.seconds / _TURNS)
                    count = len(transactions) + 8 * UNMEASURED
                    taken_ms[row.key].append(watch.broker_seconds() * 1000 / count)
        return Measured({key: min(taken) for key, taken in taken_ms.items()})

    return LifecycleWorkload(
        "what a transaction costs by what is known", (few, many, long_log), measure, only=frozenset({SEMEL_OS})
    )


def know(server: Server, ids: int) -> None:
    """Leave a stopped broker behind whose ``__transaction_state`` holds so many ids."""
    with running(server):
        semel_load(server, _topic_of(server), 1, 1, 0.0)  # The first transactional producer makes the internal topic.
        server.stop()
    logs = {shard: _end(_log_file(server, shard)) for shard in range(_SHARDS)}
    batches: dict[int, list[bytes]] = {shard: [] for shard in range(_SHARDS)}
    for record in _known(ids):
        shard = partition_for(record.transactional_id, _SHARDS)
        batches[shard].append(
            build_single(
                *encode(record),
                timestamp=record.updated_ms,
                base_offset=logs[shard] + len(batches[shard]),
                partition_leader_epoch=0,
            )
        )
    for shard, of_shard in batches.items():
        with _log_file(server, shard).open("ab") as log:
            log.write(b"".join(of_shard))
    # The first start finds that nobody vouches for these bytes, and checks them; what is measured is not that.
    with running(server):
        wait_until_loaded(server)
        server.stop()


def wait_until_loaded(server: Server) -> None:
    """Return once every shard answers. What is asked for is nearly nothing: the transactions that are open."""
    api, version = APIS[ApiKey.LIST_TRANSACTIONS], 0
    request = bytes(encode_request(0, api, version, ListTransactionsRequest(state_filters=["Ongoing"])))
    with connected(server) as connection:
        for _ in range(60_000):
            connection.sendall(request)
            frame = receive_frame(connection)
            _, position = decode_response_header(frame, api, version)
            code = decode(ListTransactionsResponse, frame, version, position).error_code
            if code == ErrorCode.NONE:
                return
            assert code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"ListTransactions was answered {code}"
            time.sleep(0.005)
    raise TimeoutError("the ids were not loaded within five minutes")


def _known(count: int) -> Iterator[Transaction]:
    """Ids that have each committed something."""
    at_ms = now_ms()
    for number in range(count):
        producer_id = _PRODUCER_IDS_FROM + number
        yield Transaction(
            transactional_id=f"order-service-{number:07}",
            producer_id=producer_id,
            producer_epoch=1 + number % 1000,
            last_producer_id=producer_id,
            last_producer_epoch=number % 1000,
            next_producer_id=None,
            state=TxnState.COMPLETE_COMMIT,
            partitions=NO_PARTITIONS,
            timeout_ms=60_000,
            started_ms=at_ms - 5,
            updated_ms=at_ms,
            client_transaction_version=2,
        )


def _topic_of(server: Server) -> str:
    topic = f"known-ids-{next(_topics)}"
    create_topic(server.bootstrap_servers, topic, partitions=PARTITIONS)
    return topic


def _log_file(server: Server, shard: int) -> Path:
    (log,) = (server.data_dir / f"{TRANSACTION_STATE_TOPIC}-{shard}").glob("*.log")
    return log


def _end(log: Path) -> int:
    """The offset behind the last batch."""
    end = 0
    for _, header in iterate_headers(log.read_bytes()):
        end = header.next_offset
    return end


_topics = itertools.count()
