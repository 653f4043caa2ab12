"""Whole request frames that several attacks send."""

from __future__ import annotations

from semel.wire.apis import APIS, ApiKey
from semel.wire.framing import encode_request
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

MS = 20_000


def frame_of(key: ApiKey, version: int, message: object, *, client_id: str = "stranger") -> bytes:
    return bytes(encode_request(1, APIS[key], version, message, client_id=client_id))


def produce_frame(topic: str, batch: bytes, *, version: int = 9, acks: int = -1) -> bytes:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, batch)])
    return frame_of(ApiKey.PRODUCE, version, ProduceRequest(acks=acks, timeout_ms=MS, topic_data=[data]))


def fetch_frame(topic: str, *, offset: int = 0, max_bytes: int = 2**31 - 1, max_wait_ms: int = 0) -> bytes:
    asked = FetchPartition(0, fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchTopic(topic, partitions=[asked])]
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=max_bytes, topics=topics)
    return frame_of(ApiKey.FETCH, 11, request)
