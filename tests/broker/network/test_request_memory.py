"""Requests that arrive share a limited memory, take turns when there is none left, and never lock each other out."""

from __future__ import annotations

from semel.testing import Broker
from semel.wire.apis import APIS, ApiKey
from semel.wire.framing import encode_request
from tests.broker.raw_client import RawClient, batch, produce_request


def test_a_broker_with_little_memory_for_requests_still_takes_all_of_them(name: str) -> None:
    value = b"v" * 900_000
    with Broker(queued_max_request_bytes=1_000_000) as broker:
        clients = [RawClient(broker.port) for _ in range(4)]
        clients[0].create_topic(name, partitions=4)
        frames = []
        for number in range(4):
            request = produce_request(name, batch(value), partition=number)
            frames.append(bytes(encode_request(1, APIS[ApiKey.PRODUCE], 9, request)))
        for start in range(0, len(frames[0]), 200_000):
            for client, frame in zip(clients, frames, strict=True):
                client.socket.sendall(frame[start : start + 200_000])
        for client in clients:
            answer = client.receive(ApiKey.PRODUCE, 9)
            assert answer.responses[0].partition_responses[0].error_code == 0
            client.socket.close()
