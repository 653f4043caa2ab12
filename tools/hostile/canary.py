"""The canary: a well-behaved client that runs during the attacks. Its longest wait for a response is the verdict.

Every 20 ms it produces one record to its own topic with acks=all (every tenth one of 200 KB), fetches it back, requests
metadata, and sends a heartbeat or commits an offset in its own group. A wait is measured twice: by the clock, and
without the time in which the broker's main thread or the canary's waited for a processor (``/proc/PID/schedstat``), to
distinguish a busy machine from a busy broker.

As a process (``python -m tools.hostile.canary PORT PID``) it prints a line of JSON when it is ready, one for every line
it reads from its standard input, and a last one when that ends.
"""

from __future__ import annotations

import json
import select
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from semel.wire.apis import ApiKey
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.heartbeat import HeartbeatRequest
from semel.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from semel.wire.records import iterate_headers, iterate_records
from tools.hostile.attack_connection import AttackConnection, response_word
from tools.hostile.batches import sound_batch
from tools.patience import PATIENCE_S

TOPIC = "canary"
GROUP = "canary-group"
ROUND_S = 0.02
_LARGE_EVERY = 10
_LARGE_BYTES = 200_000
_FETCH_BYTES_MAX = 4 * 2**20


def value_of(number: int) -> bytes:
    """Return the value of the canary's record with this number, with which the log can be compared."""
    text = b"%d;" % number
    return text.ljust(_LARGE_BYTES, b".") if number % _LARGE_EVERY == 0 else text


@dataclass
class Waits:
    """What the canary has measured since the last report. Times are in milliseconds."""

    rounds: int = 0
    longest_ms: int = 0
    longest_at: str = ""
    broker_ms: int = 0
    """The longest wait without the time in which the broker or the canary waited for a processor."""
    broker_at: str = ""
    produced: int = 0
    """The number of records produced since the start."""
    troubles: list[str] = field(default_factory=list)


class Canary:
    def __init__(self, port: int, pid: int | None) -> None:
        self._port = port
        self._queues = [Path("/proc/thread-self/schedstat")]
        if pid is not None:
            self._queues.append(Path(f"/proc/{pid}/schedstat"))
        self._clients: dict[str, AttackConnection] = {}
        self._number = 0
        self._position = 0
        self._member_id, self._generation = "", -1
        self._waits = Waits()

    def start(self) -> None:
        """Create the topic, join the group, and do a few rounds; raises AssertionError if the broker refuses."""
        topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        assert response_word(self._ask("admin", ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic]))) == "NONE"
        self._join()
        for _ in range(10):
            self.round()
        assert not self._waits.troubles, self._waits.troubles
        self._waits = Waits(produced=self._number)

    def round(self) -> None:
        waits = self._waits
        waits.rounds += 1
        number = self._number
        self._number += 1
        self._timed("produce", lambda: self._produce(number))
        self._timed("fetch", self._fetch)
        self._timed("metadata", self._metadata)
        if number % 2:
            self._timed("heartbeat", self._heartbeat)
        else:
            self._timed("commit", self._commit)

    def taken(self) -> Waits:
        """Return the measurements since the last call, and start new ones."""
        waits, self._waits = self._waits, Waits()
        waits.produced = self._number
        return waits

    def _timed(self, name: str, work: Callable[[], None]) -> None:
        queued, started = self._queued_ns(), time.monotonic_ns()
        try:
            work()
        except (OSError, AssertionError) as error:
            self._trouble(f"{name}: {error}")
        waited = time.monotonic_ns() - started
        charged = max(0, waited - (self._queued_ns() - queued))
        waits = self._waits
        if waited // 1_000_000 > waits.longest_ms:
            waits.longest_ms, waits.longest_at = waited // 1_000_000, name
        if charged // 1_000_000 > waits.broker_ms:
            waits.broker_ms, waits.broker_at = charged // 1_000_000, name

    def _queued_ns(self) -> int:
        """Return how long the broker's main thread and this one have waited for a processor; 0 if it is not known."""
        try:
            return sum(int(file.read_text().split()[1]) for file in self._queues)
        except (OSError, IndexError, ValueError):
            return 0

    def _trouble(self, text: str) -> None:
        if len(self._waits.troubles) < 10:
            self._waits.troubles.append(text[:200])

    def _ask(self, name: str, key: ApiKey, version: int, message: object) -> Any:
        client = self._clients.get(name)
        if client is None:
            client = self._clients[name] = AttackConnection(self._port, timeout_s=PATIENCE_S)
        response = client.ask(key, version, message, client_id="canary")
        if isinstance(response, str):
            client.close()
            del self._clients[name]
            raise AssertionError(f"the connection is {response}")
        return response

    def _produce(self, number: int) -> None:
        data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(0, sound_batch(value_of(number)))])
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
        response = self._ask("produce", ApiKey.PRODUCE, 9, request)
        (answer,) = response.responses[0].partition_responses
        assert answer.error_code == 0, response_word(response)
        assert answer.base_offset == number, f"record {number} was given offset {answer.base_offset}"

    def _fetch(self) -> None:
        asked = FetchPartition(0, fetch_offset=self._position, partition_max_bytes=_FETCH_BYTES_MAX)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=_FETCH_BYTES_MAX, topics=[FetchTopic(TOPIC, partitions=[asked])]
        )
        response = self._ask("fetch", ApiKey.FETCH, 11, request)
        assert response_word(response) == "NONE", response_word(response)
        (answer,) = response.responses[0].partitions
        for number, value in _records(answer.records or b""):
            assert (number, value) == (self._position, value_of(number)), f"read {value[:20]!r} at {number}"
            self._position += 1
        assert self._position == self._number, f"{self._position} of {self._number} records can be read"

    def _metadata(self) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
        response = self._ask("metadata", ApiKey.METADATA, 9, request)
        assert response_word(response) == "NONE", response_word(response)

    def _heartbeat(self) -> None:
        request = HeartbeatRequest(GROUP, self._generation, self._member_id)
        response = self._ask("group", ApiKey.HEARTBEAT, 4, request)
        assert response_word(response) == "NONE", response_word(response)

    def _commit(self) -> None:
        partition = OffsetCommitRequestPartition(0, self._position, committed_metadata="")
        topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
        request = OffsetCommitRequest(GROUP, self._generation, self._member_id, topics=[topic])
        response = self._ask("group", ApiKey.OFFSET_COMMIT, 8, request)
        assert response_word(response) == "NONE", response_word(response)

    def _join(self) -> None:
        until = time.monotonic() + PATIENCE_S
        while True:
            # FindCoordinator creates __consumer_offsets.
            self._ask("group", ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(GROUP, 0))
            request = JoinGroupRequest(
                GROUP,
                session_timeout_ms=60_000,
                rebalance_timeout_ms=60_000,
                member_id=self._member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol("range", b"")],
            )
            response = self._ask("group", ApiKey.JOIN_GROUP, 7, request)
            self._member_id = response.member_id or self._member_id
            if response.error_code == 0:
                break
            # The first answer is MEMBER_ID_REQUIRED, or there is no coordinator yet.
            assert time.monotonic() < until, response_word(response)
            time.sleep(0.02)
        self._generation = response.generation_id
        sync = SyncGroupRequest(
            GROUP,
            self._generation,
            self._member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(self._member_id, b"")],
        )
        assert response_word(self._ask("group", ApiKey.SYNC_GROUP, 5, sync)) == "NONE"


def read_back(port: int, count: int) -> list[str]:
    """Return the faults of the canary's topic, which must have ``count`` records, once, in order, and no others."""
    position = 0
    with AttackConnection(port, timeout_s=PATIENCE_S) as client:
        while True:
            asked = FetchPartition(0, fetch_offset=position, partition_max_bytes=_FETCH_BYTES_MAX)
            topics = [FetchTopic(TOPIC, partitions=[asked])]
            request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=2**20, topics=topics)
            response = client.ask(ApiKey.FETCH, 11, request)
            if isinstance(response, str) or response_word(response) != "NONE":
                return [f"the canary's topic cannot be read at {position}: {response_word(response)}"]
            before = position
            for number, value in _records(response.responses[0].partitions[0].records or b""):
                if (number, value) != (position, value_of(position)):
                    return [f"offset {number} of the canary's topic holds {value[:20]!r}; expected was {position}"]
                position += 1
            if position == before:
                wrong = f"the canary's topic ends at {position}; {count} records were acknowledged"
                return [] if position == count else [wrong]


def _records(data: bytes | memoryview) -> Iterator[tuple[int, bytes]]:
    for position, _ in iterate_headers(data, allow_partial_tail=True):
        for record in iterate_records(data, position):
            yield record.offset, record.value or b""


def main() -> None:
    port, pid = map(int, sys.argv[1:3])
    canary = Canary(port, pid)
    canary.start()
    print(json.dumps("ready"), flush=True)
    while True:
        started = time.monotonic()
        canary.round()
        rest = max(0.0, ROUND_S - (time.monotonic() - started))
        if select.select([sys.stdin], [], [], rest)[0]:
            asked = sys.stdin.readline()
            canary.round()
            print(json.dumps(asdict(canary.taken())), flush=True)
            if not asked:
                return


if __name__ == "__main__":
    main()
