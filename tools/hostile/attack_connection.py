"""A connection of an attacker, who may send complete frames, parts of frames or any bytes, and need not read.

A response is described in one word: the name of an error code, ``closed`` (the broker closed the connection),
``silent`` (nothing came before the timeout), or ``answered`` (a response that is too large to decode).
"""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import Any

from semel.errors import DecodeError, ErrorCode
from semel.wire.apis import APIS, ApiKey
from semel.wire.codec import decode
from semel.wire.framing import decode_response_header, encode_request

HOST = "127.0.0.1"
CLOSED = "closed"
SILENT = "silent"
ANSWERED = "answered"

_FRAME_BYTES_MAX = 200 * 2**20
_DECODED_BYTES_MAX = 2 * 2**20


class AttackConnection:
    def __init__(
        self, port: int, *, timeout_s: float = 60.0, receive_buffer_bytes: int | None = None, source: str = HOST
    ) -> None:
        self.socket = socket.socket()
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(timeout_s)
        try:
            if source != HOST:
                self.socket.bind((source, 0))
            self.socket.connect((HOST, port))
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            self.socket.close()
            raise

    def __enter__(self) -> AttackConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes | bytearray) -> bool:
        """Send the data. Return whether all of it was sent before the connection was closed or the timeout."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    def ask(self, key: ApiKey, version: int, message: object, *, client_id: str | None = "stranger") -> Any:
        """Send a request. Return the response, or ``closed``, ``silent`` or ``answered``."""
        return self.ask_frame(key, version, encode_request(1, APIS[key], version, message, client_id=client_id))

    def ask_frame(self, key: ApiKey, version: int, frame: bytes | bytearray) -> Any:
        if not self.send(frame):
            # The broker may have sent an error before it closed the connection, but TCP may have lost it.
            return CLOSED
        answer = self.receive()
        if isinstance(answer, str):
            return answer
        if len(answer) > _DECODED_BYTES_MAX:
            return ANSWERED
        try:
            _, position = decode_response_header(answer, APIS[key], version)
            return decode(APIS[key].response_class, answer, version, position)
        except DecodeError as error:
            raise AssertionError(f"{APIS[key].name} v{version}: the answer cannot be decoded: {error}") from None

    def receive(self) -> bytes | str:
        """Receive one complete response. Return it without its size prefix, or ``closed`` or ``silent``."""
        try:
            (size,) = struct.unpack(">i", self._exactly(4))
            assert 0 <= size <= _FRAME_BYTES_MAX, f"an answer of {size} bytes"
            return self._exactly(size)
        except TimeoutError:
            return SILENT
        except OSError:
            return CLOSED

    def is_closed(self, timeout_s: float) -> bool:
        """Whether the broker closes this connection within the time. Bytes that it sends before are dropped."""
        self.socket.settimeout(timeout_s)
        try:
            while self.socket.recv(2**16):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self.socket.recv(min(size - len(data), 2**20))
            if not chunk:
                raise ConnectionError("closed")
            data += chunk
        return bytes(data)


def response_word(response: Any) -> str:
    """Return a response in one word: the first error code in it that is not NONE, else NONE; a word is returned as it
    is."""
    if isinstance(response, str):
        return response
    code = first_error(response)
    with contextlib.suppress(ValueError):
        return ErrorCode(code).name
    return f"error {code}"


def first_error(response: Any) -> int:
    """Return the first error code at any level of a response; 0 if there is none."""
    names = getattr(type(response), "__slots__", ())
    for name in names:
        if name.endswith("error_code") and (code := getattr(response, name)):
            return int(code)
    for name in names:
        value = getattr(response, name)
        for element in value[:100] if isinstance(value, list) else (value,):
            if hasattr(type(element), "__slots__") and (code := first_error(element)):
                return code
    return 0
