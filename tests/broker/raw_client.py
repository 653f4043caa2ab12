"""A client that speaks the protocol byte by byte and hides nothing: what was sent, what came back, who hung up."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from typing import Any

from semel.wire.apis import APIS, ApiKey
from semel.wire.codec import decode
from semel.wire.framing import decode_response_header, encode_request
from semel.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from semel.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from semel.wire.records import Record, build_batch, iterate_headers, iterate_records
from tools.patience import PATIENCE_S


class RawClient:
    def __init__(self, port: int, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self.socket = socket.create_connection((host, port), timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=host)
        self._correlation_id = 0
        self.client_id = "raw"

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def call(self, key: ApiKey, version: int, message: object) -> Any:
        correlation_id = self.send(key, version, message)
        return self.receive(key, version, correlation_id)

    def send(self, key: ApiKey, version: int, message: object) -> int:
        self._correlation_id += 1
        self.socket.sendall(encode_request(self._correlation_id, APIS[key], version, message, client_id=self.client_id))
        return self._correlation_id

    def receive(self, key: ApiKey, version: int, correlation_id: int | None = None) -> Any:
        frame = self.receive_frame()
        answered, position = decode_response_header(frame, APIS[key], version)
        assert correlation_id is None or answered == correlation_id
        return decode(APIS[key].response_class, frame, version, position)

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def send_frame(self, body: bytes) -> None:
        self.socket.sendall(struct.pack(">i", len(body)) + body)

    def is_closed_by_broker(self, timeout_s: float = PATIENCE_S) -> bool:
        self.socket.settimeout(timeout_s)
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        finally:
            self.socket.settimeout(PATIENCE_S)

    def has_answer(self, within_s: float) -> bool:
        """Whether a byte of an answer arrives in time; it is not consumed."""
        self.socket.settimeout(within_s)
        try:
            return bool(self.socket.recv(1, socket.MSG_PEEK))
        except TimeoutError:
            return False
        finally:
            self.socket.settimeout(PATIENCE_S)

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            if not chunk:
                raise ConnectionError(f"the broker hung up after {len(data)} of {size} bytes")
            data += chunk
        return bytes(data)

    # Requests that most tests need.

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> str:
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()],
        )
        (result,) = self.call(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic])).topics
        assert result.error_code == 0, result
        return name

    def produce(
        self, topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1, version: int = 9
    ) -> PartitionProduceResponse:
        message = produce_request(topic, records, partition=partition, acks=acks)
        ((answer,),) = (topic.partition_responses for topic in self.call(ApiKey.PRODUCE, version, message).responses)
        assert isinstance(answer, PartitionProduceResponse)
        return answer

    def fetch(
        self,
        topic: str,
        offset: int,
        *,
        partition: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        isolation_level: int = 0,
        version: int = 11,
    ) -> PartitionData:
        message = fetch_request(topic, offset, partition=partition, max_wait_ms=max_wait_ms, min_bytes=min_bytes)
        message.isolation_level = isolation_level
        ((answer,),) = (topic.partitions for topic in self.call(ApiKey.FETCH, version, message).responses)
        assert isinstance(answer, PartitionData)
        return answer


def produce_request(
    topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1, timeout_ms: int = 10_000
) -> ProduceRequest:
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(partition, records)])]
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=data)


def fetch_request(
    topic: str, offset: int, *, partition: int = 0, max_wait_ms: int = 0, min_bytes: int = 1, max_bytes: int = 2**20
) -> FetchRequest:
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=2**30,
        topics=[FetchTopic(topic=topic, partitions=[asked])],
    )


def batch(*values: bytes, **options: Any) -> bytes:
    timestamp = options.pop("timestamp", int(time.time() * 1000))
    records = [
        Record(offset=number, timestamp=timestamp + number, key=b"k%d" % number, value=value, headers=())
        for number, value in enumerate(values)
    ]
    return bytes(build_batch(records, **options))


def values(data: PartitionData) -> list[tuple[int, bytes | None]]:
    """(offset, value) of every record in a fetched partition, a batch that was cut off excepted."""
    records = data.records or b""
    return [
        (record.offset, record.value)
        for position, _ in iterate_headers(records, allow_partial_tail=True)
        for record in iterate_records(records, position)
    ]
