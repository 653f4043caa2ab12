"""Attacks with clients that do not read responses, frames that never end, and requests without a pause."""

from __future__ import annotations

import struct
import time

from semel.wire.apis import ApiKey
from semel.wire.messages.api_versions import ApiVersionsRequest
from semel.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.wire.messages.metadata import MetadataRequest
from tools.frames import request_header
from tools.hostile.attack_connection import AttackConnection
from tools.hostile.attack_context import AttackContext, attack
from tools.hostile.attacks.produced import produce
from tools.hostile.attacks.requests import fetch_frame, frame_of, produce_frame
from tools.hostile.batches import sound_batch
from tools.hostile.canary import TOPIC as CANARY

_MEGABYTE = 2**20


def filled_topic(context: AttackContext, size_bytes: int) -> str:
    topic = context.new_topic()
    batch = sound_batch(bytes(_MEGABYTE - 1000))
    with context.connect() as client:
        for _ in range(max(1, size_bytes // _MEGABYTE)):
            produce(client, topic, batch)
    return topic


@attack
def forty_clients_that_do_not_read(context: AttackContext) -> None:
    """Each client requests the largest possible response, several times."""
    frame = fetch_frame(filled_topic(context, context.times(60 * _MEGABYTE, least=4 * _MEGABYTE)))
    _unread(context, frame * 5, clients=40)


@attack
def two_hundred_clients_that_do_not_read(context: AttackContext) -> None:
    frame = fetch_frame(filled_topic(context, context.times(20 * _MEGABYTE, least=2 * _MEGABYTE)))
    _unread(context, frame * 3, clients=context.times(200, least=20))


@attack
def unread_answers_to_metadata(context: AttackContext) -> None:
    """Thousands of small requests with large responses."""
    context.new_topic(partitions=context.times(1000, least=20))
    frame = frame_of(ApiKey.METADATA, 9, MetadataRequest(topics=None))
    _unread(context, frame * context.times(5_000, least=100), clients=10)


@attack
def unread_answers_to_describe_configs(context: AttackContext) -> None:
    resource = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
    request = DescribeConfigsRequest([resource], include_synonyms=True, include_documentation=True)
    _unread(context, frame_of(ApiKey.DESCRIBE_CONFIGS, 4, request) * context.times(2_000, least=50), clients=10)


@attack
def a_storm_of_api_versions(context: AttackContext) -> None:
    frame = frame_of(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("x", "1"))
    _unread(context, frame * context.times(100_000, least=1000), clients=20)


@attack
def fetches_that_wait_by_the_thousand(context: AttackContext) -> None:
    """Long polls on all connections that one address may have."""
    frame = fetch_frame(context.new_topic(), max_wait_ms=30_000)
    _unread(context, frame * 300, clients=context.times(400, least=20))


@attack
def watchers_of_the_canarys_topic(context: AttackContext) -> None:
    """Long polls that wait for more bytes than will ever come. The cost of a record of the canary must not grow with
    their number."""
    topics = [FetchTopic(CANARY, partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=2**31 - 1)])]
    request = FetchRequest(max_wait_ms=20_000, min_bytes=2**31 - 1, max_bytes=2**31 - 1, topics=topics)
    frame = frame_of(ApiKey.FETCH, 11, request)
    clients = [context.connect(timeout_s=1) for _ in range(context.times(450, least=20))]
    for client in clients:
        context.answers["sent" if client.send(frame) else "stopped"] += 1
    time.sleep(max(0.5, 5.0 * context.scale))
    for client in clients:
        client.close()


@attack
def requests_without_answers(context: AttackContext) -> None:
    """Thousands of Produce requests with acks=0: there are no responses by which the broker could slow the client."""
    frame = produce_frame(context.new_topic(), sound_batch(b"x" * 100), acks=0)
    clients = [context.connect(timeout_s=1) for _ in range(10)]
    for client in clients:
        context.answers["sent" if client.send(frame * context.times(10_000, least=200)) else "stopped"] += 1
    for client in clients:
        client.close()


@attack
def a_reader_that_takes_a_byte_at_a_time(context: AttackContext) -> None:
    topic = filled_topic(context, context.times(30 * _MEGABYTE, least=2 * _MEGABYTE))
    frame = fetch_frame(topic)
    clients = [context.connect(timeout_s=0.2, receive_buffer_bytes=4096) for _ in range(20)]
    for client in clients:
        client.send(frame)
    until = time.monotonic() + context.times(5)
    while time.monotonic() < until:
        for client in clients:
            try:
                client.socket.recv(1)
            except OSError:
                context.answers["gone"] += 1
        time.sleep(0.05)
    for client in clients:
        client.close()


@attack
def four_frames_that_never_end(context: AttackContext) -> None:
    """Each frame has a length of 90 MB; most of it is sent, and then nothing more. Other clients' large requests must
    still get memory."""
    _unfinished_frames(context, clients=4, timeout_s=5, share=0.8, wait_s=max(0.5, 6.0 * context.scale))


@attack
def forty_frames_that_never_end(context: AttackContext) -> None:
    _unfinished_frames(context, clients=40, timeout_s=1, share=0.25)


def _unfinished_frames(
    context: AttackContext, *, clients: int, timeout_s: float, share: float, wait_s: float = 0
) -> None:
    size = context.times(90 * _MEGABYTE, least=2 * _MEGABYTE)
    start = struct.pack(">i", size) + request_header(ApiKey.PRODUCE, 9, 1)
    connections = [context.connect(timeout_s=timeout_s) for _ in range(clients)]
    try:
        for connection in connections:
            context.answers["sent" if connection.send(start + bytes(int(size * share))) else "stopped"] += 1
        time.sleep(wait_s)
        # The large request of another client must be answered.
        topic = context.new_topic(max_message_bytes=str(20 * _MEGABYTE))
        with context.connect(timeout_s=60) as honest:
            large = sound_batch(bytes(context.times(10 * _MEGABYTE, least=_MEGABYTE)))
            context.must_answer("a request of 10 MB beside unfinished ones", produce(honest, topic, large))
    finally:
        for connection in connections:
            connection.close()


@attack
def frames_that_drip(context: AttackContext) -> None:
    """A hundred connections that send one byte at a time."""
    frame = produce_frame(context.new_topic(), sound_batch(b"x" * 1000))
    clients = [context.connect(timeout_s=5) for _ in range(context.times(100, least=10))]
    try:
        for at in range(min(len(frame), context.times(600, least=100))):
            if context.expired:
                break
            for client in clients:
                client.send(frame[at : at + 1])
    finally:
        context.answers["sent"] += len(clients)
        for client in clients:
            client.close()


@attack
def requests_by_the_thousand_without_reading(context: AttackContext) -> None:
    """Pipelined Produce requests, whose answers are small and never read."""
    frame = produce_frame(context.new_topic(), sound_batch(b"x" * 100))
    _unread(context, frame * context.times(20_000, least=500), clients=10)


@attack
def fetches_of_everything_at_once(context: AttackContext) -> None:
    """Twenty clients that read their responses send a Fetch each, with the largest sizes that fit into the fields."""
    frame = fetch_frame(filled_topic(context, context.times(60 * _MEGABYTE, least=4 * _MEGABYTE)))
    clients = [context.connect(timeout_s=30) for _ in range(20)]
    for client in clients:
        client.send(frame)
    for client in clients:
        answer = client.receive()
        context.noted(answer if isinstance(answer, str) else "answered")
        client.close()


def _unread(context: AttackContext, data: bytes, *, clients: int) -> None:
    """Let ``clients`` clients send the data, as far as the broker accepts it, and read nothing for a while."""
    connections: list[AttackConnection] = []
    try:
        for _ in range(clients):
            client = context.connect(timeout_s=0.3, receive_buffer_bytes=4096)
            connections.append(client)
            context.answers["sent" if client.send(data) else "stopped"] += 1
        time.sleep(max(0.2, 3.0 * context.scale))
    finally:
        for client in connections:
            client.close()
