"""Attacks with connections: very many, half open, silent, and with bytes that are no request."""

from __future__ import annotations

import contextlib
import socket
import struct
import time

from semel.wire.apis import ApiKey
from semel.wire.messages.api_versions import ApiVersionsRequest
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from semel.wire.messages.sasl_handshake import SaslHandshakeRequest
from tools.frames import request_header
from tools.hostile.attack_connection import HOST, AttackConnection, response_word
from tools.hostile.attack_context import Attack, AttackContext, add, attack
from tools.hostile.attacks.produced import produce
from tools.hostile.attacks.requests import frame_of
from tools.hostile.batches import sound_batch


@attack
def a_flood_of_connections(context: AttackContext) -> None:
    """Connections are opened up to the limit of this process, without closing any."""
    clients: list[AttackConnection] = []
    try:
        for _ in range(context.times(5_000, least=100)):
            if context.expired:
                break
            try:
                clients.append(context.connect(timeout_s=5))
            except OSError:
                context.answers["refused"] += 1
        context.answers["opened"] += len(clients)
        # Further connections may be refused while these are open. The canary has its connections already.
        for client in clients[-50:]:
            context.noted(client.receive() if client.is_closed(0.05) else "open")
    finally:
        for client in clients:
            client.close()


def _use_up_the_descriptors(context: AttackContext) -> None:
    """Connections are opened until no more are accepted. Topics are requested meanwhile; when the connections are
    closed, a topic must be created and used again."""
    clients: list[AttackConnection] = []
    try:
        with context.connect(timeout_s=20) as early:
            for number in range(context.times(900, least=600)):
                if context.expired:
                    break
                try:
                    clients.append(context.connect(timeout_s=2, source=f"127.0.0.{2 + number % 4}"))
                except OSError:
                    context.answers["refused"] += 1
            context.answers["opened"] += len(clients)
            for number in range(20):
                topics = [CreatableTopic(f"squeezed-{number}", 10, 1)]
                context.noted(early.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics, timeout_ms=5_000)))
    finally:
        for client in clients:
            client.close()
    for _ in range(600):
        # The broker notices a moment later that the last connections were closed.
        topic, answer = context.ask_for_topic()
        if answer == "NONE":
            with context.connect() as client:
                if response_word(produce(client, topic, sound_batch(b"room again"))) == "NONE":
                    return
        time.sleep(0.1)
    context.finding("no topic can be used although descriptors are free again")


add(Attack("connections-where-descriptors-are-few", _use_up_the_descriptors, descriptors_max=600))


@attack
def half_frames_from_two_addresses(context: AttackContext) -> None:
    """The largest allowed number of connections, each with 250 KB of an unfinished frame."""
    start = struct.pack(">i", 256_000) + request_header(ApiKey.PRODUCE, 9, 1) + bytes(250_000)
    clients: list[AttackConnection] = []
    try:
        for number in range(context.times(980, least=40)):
            if context.expired:
                break
            clients.append(context.connect(timeout_s=1, source=f"127.0.0.{2 + number % 4}"))
            context.answers["sent" if clients[-1].send(start) else "stopped"] += 1
    finally:
        for client in clients:
            client.close()


@attack
def a_flood_of_scrapes(context: AttackContext) -> None:
    """Connections to the metrics page: without a request, with endless request heads, with responses not read."""
    if context.metrics_port is None:
        return
    heads = (b"", b"GET /metrics HTTP/1.1\r\n", b"x" * 8_000, b"x" * 100_000, b"GET /metrics HTTP/1.1\r\n\r\n")
    scrapers: list[AttackConnection] = []
    try:
        for number in range(context.times(3_000, least=50)):
            if context.expired:
                break
            try:
                scraper = AttackConnection(context.metrics_port, timeout_s=1, receive_buffer_bytes=4096)
            except OSError:
                context.answers["refused"] += 1
                continue
            scrapers.append(scraper)
            context.answers["sent" if scraper.send(heads[number % len(heads)]) else "stopped"] += 1
    finally:
        for scraper in scrapers:
            scraper.close()


def _scrape_the_descriptors_away(context: AttackContext) -> None:
    """Connections to the metrics page use descriptors, too. Requests of clients must be answered meanwhile."""
    if context.metrics_port is None:
        return
    idle: list[AttackConnection] = []
    try:
        with context.connect(timeout_s=20) as early:
            for _ in range(1000):
                try:
                    idle.append(AttackConnection(context.metrics_port, timeout_s=1))
                except OSError:
                    context.answers["refused"] += 1
            for number in range(20):
                topics = [CreatableTopic(f"scraped-{number}", 10, 1)]
                context.noted(early.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics, timeout_ms=5_000)))
    finally:
        for one in idle:
            one.close()


add(Attack("scrapes-where-descriptors-are-few", _scrape_the_descriptors_away, descriptors_max=600))


@attack
def connections_that_come_and_go(context: AttackContext) -> None:
    frame = frame_of(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("x", "1"))
    for number in range(context.times(10_000, least=200)):
        if context.expired:
            break
        with context.connect(timeout_s=5) as client:
            if number % 3:
                client.send(frame[: 1 + number % len(frame)])
            if number % 2:
                # Close the connection with a reset.
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    context.answers["opened"] += 1


@attack
def half_closed_connections(context: AttackContext) -> None:
    frame = frame_of(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("x", "1"))
    clients = [context.connect(timeout_s=5) for _ in range(context.times(300, least=20))]
    for client in clients:
        client.send(frame * 20)
        with contextlib.suppress(OSError):
            client.socket.shutdown(socket.SHUT_WR)
    for client in clients:
        context.noted("closed" if client.is_closed(5) else "open")
        client.close()


@attack
def bytes_that_are_no_protocol(context: AttackContext) -> None:
    for number in range(context.times(3_000, least=100)):
        if context.expired:
            break
        with context.connect(timeout_s=5) as client:
            client.send(
                (
                    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                    b"\x16\x03\x01\x02\x00\x01\x00\x01" + bytes(500),
                    struct.pack(">i", -1),
                    struct.pack(">i", 2**31 - 1),
                    struct.pack(">i", 0),
                    struct.pack(">i", 3) + b"abc",
                    struct.pack(">i", 64) + context.random.randbytes(64),
                )[number % 7]
            )
    context.answers["sent"] += 1


@attack
def sasl_where_there_is_none(context: AttackContext) -> None:
    for _ in range(context.times(500, least=10)):
        with context.connect(timeout_s=5) as client:
            context.noted(client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN")))
        with context.connect(timeout_s=5) as client:
            context.noted(client.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(bytes(100_000))))


@attack
def half_open_from_many_ports(context: AttackContext) -> None:
    """Connections that the system has accepted and that send nothing, then are all reset at the same time."""
    sockets: list[socket.socket] = []
    for _ in range(context.times(2_000, least=100)):
        one = socket.socket()
        one.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            one.connect_ex((HOST, context.port))
        sockets.append(one)
    for one in sockets:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()
    context.answers["opened"] += len(sockets)
