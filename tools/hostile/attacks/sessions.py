"""Attacks with sessions that begin with valid requests and end with invalid ones: the stateful part of the fuzz.

A session is a connection with some sound requests (on a listener with SASL: some steps of a login; with TLS: a
handshake), and then one of these endings: mutated frames, many frames at once, one correlation id for several requests,
bytes one by one, half a frame and then the end of the stream, or half a frame and a reset. Each sound request must be
answered, in order.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from collections import deque
from collections.abc import Iterator
from random import Random
from typing import Final

from semel.security.sasl.client import Scram
from semel.wire.apis import APIS, ApiKey
from semel.wire.framing import encode_request
from semel.wire.messages.api_versions import ApiVersionsRequest
from semel.wire.messages.metadata import MetadataRequest
from semel.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from semel.wire.messages.sasl_handshake import SaslHandshakeRequest
from tools.fuzz.mutation import mutated as mutated_bytes
from tools.hostile.attack_connection import HOST, SILENT, AttackConnection
from tools.hostile.attack_context import AttackContext, attack
from tools.hostile.fuzz import mutated, requests

FRAMES: Final = 20_000
PLAIN_USER, PLAIN_PASSWORD = "carol", "carols"
"""The user and password in the broker's configuration, for listeners with SASL."""

_OPEN_AT_ONCE: Final = 100
_TIMEOUT_S: Final = 20.0
_CORRELATION_ID: Final = struct.Struct(">i")
_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER with zero seconds: close drops unsent data and sends a reset.


@attack
def sessions_that_begin_well(context: AttackContext) -> None:
    frames = context.times(FRAMES, least=300)
    opened: deque[AttackConnection] = deque()
    source = requests(context.random)
    try:
        while context.answers["frames"] < frames and not context.stopped.is_set():
            client = _session(context, source)
            if client is not None:
                opened.append(client)
            while len(opened) > _OPEN_AT_ONCE:
                opened.popleft().close()
    finally:
        for client in opened:
            client.close()


def _session(context: AttackContext, source: Iterator[bytes]) -> AttackConnection | None:
    """Run one session. Return the connection if it is still open."""
    random = context.random
    # TLS is chosen less often, because a handshake takes the time of twenty plain frames.
    protocol = random.choice(("PLAINTEXT", "PLAINTEXT", *context.secured_ports))
    if protocol.endswith("SSL") and random.random() < 0.6:
        protocol = "PLAINTEXT"
    context.answers[f"sessions {protocol}"] += 1
    client = AttackConnection(context.secured_ports.get(protocol, context.port), timeout_s=_TIMEOUT_S)
    try:
        if protocol.endswith("SSL") and not _is_secured(context, client):
            return client
        if protocol.startswith("SASL") and not _is_logged_in(context, client):
            return client
        _sound_requests(context, client)
        return _ending(context, client, source)
    except OSError:
        context.answers["gone"] += 1  # The broker closed the connection because of invalid bytes.
        client.close()
        return None


# How a session begins


def _sound_requests(context: AttackContext, client: AttackConnection) -> None:
    """Send some sound requests at once. Each must be answered, in order."""
    random = context.random
    ids = [random.getrandbits(31) for _ in range(random.randrange(4))]
    if random.random() < 0.3:
        ids = ids[:1] * len(ids)  # A client may use one correlation id several times.
    data = bytearray()
    for correlation_id in ids:
        if random.random() < 0.5:
            key, version, body = ApiKey.API_VERSIONS, random.randrange(4), ApiVersionsRequest("fuzz", "1")
        else:
            key, version, body = ApiKey.METADATA, random.randint(4, 12), MetadataRequest(topics=[])  # type: ignore[assignment]
        data += encode_request(correlation_id, APIS[key], version, body, client_id="fuzz")
    if not _sent(context, client, data, frames=len(ids)):
        context.finding("the broker closed a connection over sound requests")
    for number, correlation_id in enumerate(ids):
        answer = client.receive()
        if isinstance(answer, str):
            context.finding(f"sound request {number} of {len(ids)}: {answer}")
            return
        (answered,) = _CORRELATION_ID.unpack_from(answer)
        if answered != correlation_id:
            context.finding(f"sound request {number}: the answer has id {answered}; {correlation_id} was sent")
        context.answers["answered"] += 1


def _is_logged_in(context: AttackContext, client: AttackConnection) -> bool:
    """Run the steps of a login, most often broken at a random step. Return whether it succeeded."""
    random = context.random
    steps = list(_login(random))
    broken_at = random.choice((None, None, *range(len(steps))))
    for number, (key, version, body) in enumerate(steps):
        frame = bytes(encode_request(number, APIS[key], version, body, client_id="fuzz"))
        if number == broken_at:
            match random.randrange(4):
                case 0:
                    frame = mutated(frame, random)
                case 1 if isinstance(body, SaslAuthenticateRequest):
                    # Half of the tokens are mutated ones, of which most are still text.
                    is_text = random.random() < 0.5
                    token = mutated_bytes(body.auth_bytes, b"n,,n=x,r=y", random) if is_text else random.randbytes(40)
                    frame = bytes(encode_request(number, APIS[key], version, SaslAuthenticateRequest(token)))
                case 2:
                    # A request directly after it that only an authenticated client may send.
                    frame += bytes(encode_request(9, APIS[ApiKey.METADATA], 12, MetadataRequest(topics=[])))
                case _:
                    frame = struct.pack(">i", random.choice((-1, 0, 2**16 + 1, 2**31 - 1))) + frame
            _sent(context, client, frame)
            context.answers["logins broken"] += 1
            return False
        _sent(context, client, frame)
        answer = client.receive()
        if isinstance(answer, str):
            if answer == SILENT:
                context.finding(f"step {number} of a login: {answer}")
            return False
    # The SCRAM login fails, because its proof is invalid.
    return SaslHandshakeRequest("PLAIN") in (body for _, _, body in steps)


def _login(random: Random) -> Iterator[tuple[ApiKey, int, object]]:
    if random.random() < 0.5:
        yield ApiKey.API_VERSIONS, 3, ApiVersionsRequest("fuzz", "1")
    version = random.choice((1, 2))
    if random.random() < 0.5:
        yield ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN")
        token = f"\0{PLAIN_USER}\0{PLAIN_PASSWORD}".encode()
        yield ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(token)
        return
    yield ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("SCRAM-SHA-256")
    yield ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(Scram("SCRAM-SHA-256", "x", "y", "z").first())
    yield ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(b"c=biws,r=z,p=AAAA")


def _is_secured(context: AttackContext, client: AttackConnection) -> bool:
    """Do the TLS handshake, or sometimes break it. Return whether the connection uses TLS now."""
    random = context.random
    if random.random() < 0.3:
        hello = mutated_bytes(_client_hello(), b"\x16\x03\x01\x02\x00\x01\x00", random)
        _sent(context, client, random.choice((hello, b"GET / HTTP/1.1\r\n\r\n", random.randbytes(200))))
        context.answers["handshakes broken"] += 1
        return False
    client.socket = _tls_context().wrap_socket(client.socket, server_hostname=HOST)
    return True


def _client_hello() -> bytes:
    out = ssl.MemoryBIO()
    beginning = _tls_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname=HOST)
    with contextlib.suppress(ssl.SSLWantReadError):
        beginning.do_handshake()
    return out.read()


def _tls_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


# How it ends


def _ending(context: AttackContext, client: AttackConnection, source: Iterator[bytes]) -> AttackConnection | None:
    random = context.random
    frame = next(source)
    match random.randrange(8):
        case 0:
            _sent(context, client, mutated(frame, random))
        case 1 | 6 | 7:
            frames = [frame] + [next(source) for _ in range(random.randint(4, 24))]
            if random.random() < 0.5:
                frames.append(mutated(frames.pop(), random))
            _sent(context, client, b"".join(frames), frames=len(frames))
        case 2:
            again = bytearray(frame)
            again[8:12] = b"\0\0\0\x07"
            _sent(context, client, bytes(again) * 5, frames=5)
        case 3:
            data = mutated(frame, random) if random.random() < 0.5 else frame
            for at in range(min(len(data), 60)):
                client.socket.sendall(data[at : at + 1])
            client.send(data[60:])
            context.answers["frames"] += 1
        case 4:
            _sent(context, client, frame[: random.randrange(len(frame))])
            with contextlib.suppress(OSError):
                client.socket.shutdown(socket.SHUT_WR)
        case _:
            _sent(context, client, frame + frame[: random.randrange(len(frame))])
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            client.close()
            return None
    return client


def _sent(context: AttackContext, client: AttackConnection, data: bytes | bytearray, *, frames: int = 1) -> bool:
    context.answers["frames"] += frames
    return client.send(data)
