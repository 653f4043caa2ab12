"""Frames and headers: the size and the header before each message.

    request  = int32 size, header v1 (or v2 if the version is flexible), body
    response = int32 size, header v0 (or v1 if the version is flexible), body

Two exceptions to "flexible means the newer header", both from Kafka: the client id stays a non-compact string in header
v2, and the response to ApiVersions always has header v0, because the client may not know yet which versions the broker
has.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from struct import Struct
from typing import Final, NamedTuple

from semel.errors import DecodeError
from semel.types import Buffer
from semel.wire.apis import APIS, Api, ApiKey
from semel.wire.codec import encoder, sliced_encoder
from semel.wire.varint import read_unsigned_varint, skip_tagged_fields

SIZE_PREFIX_BYTES: Final = 4
# Kafka has no tagged fields in headers yet. Skipping one takes time, and a frame has room for fifty million.
HEADER_TAGS_MAX: Final = 1000


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(buffer: Buffer) -> tuple[RequestHeader, int]:
    """Return the header of a request (a frame without its size), and the position where the body begins.

    If ``APIS`` does not have the key or the version, the fields after the correlation id cannot be parsed: the client
    id is None, and the position is that after the correlation id. That is enough to respond to ApiVersions with
    UNSUPPORTED_VERSION.
    """
    try:
        api_key, api_version, correlation_id = _FIXED_PART.unpack_from(buffer)
        api = APIS.get(api_key)
        if api is None or not api.min_version <= api_version <= api.max_version:
            return RequestHeader(api_key, api_version, correlation_id, None), _FIXED_PART.size
        client_id, position = _client_id(buffer)
        if api.flexible_since is not None and api_version >= api.flexible_since:
            tags = buffer[position]
            position += 1
            if tags:
                tags, position = read_unsigned_varint(buffer, position - 1)
                if tags > HEADER_TAGS_MAX:
                    raise DecodeError(f"request header: {tags} tagged fields; the limit is {HEADER_TAGS_MAX}")
                position = skip_tagged_fields(buffer, position, tags)
    except (IndexError, struct.error):
        raise DecodeError(f"request header: {len(buffer)} bytes end inside it") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def decode_response_header(buffer: Buffer, api: Api, version: int) -> tuple[int, int]:
    """Return the correlation id of a response (a frame without its size), and the position where the body begins."""
    try:
        (correlation_id,) = _INT32.unpack_from(buffer)
        position = 4
        if _response_header_is_flexible(api, version):
            tags, position = read_unsigned_varint(buffer, position)
            position = skip_tagged_fields(buffer, position, tags)
    except (IndexError, struct.error):
        raise DecodeError(f"response header: {len(buffer)} bytes end inside it") from None
    return correlation_id, position


def encode_request(
    correlation_id: int, api: Api, version: int, message: object, *, client_id: str | None = None
) -> bytearray:
    """Return a whole request frame."""
    return _framed(_request_start(correlation_id, api, version, client_id), message, version)


def encode_request_parts(
    correlation_id: int, api: Api, version: int, message: object, *, client_id: str | None = None
) -> list[Buffer]:
    """Return the request frame in parts, with large records fields by reference."""
    return _framed_parts(_request_start(correlation_id, api, version, client_id), message, version)


def encode_response(correlation_id: int, api: Api, version: int, message: object) -> bytearray:
    """Return a whole response frame."""
    return _framed(_response_start(correlation_id, api, version), message, version)


def encode_response_parts(correlation_id: int, api: Api, version: int, message: object) -> list[Buffer]:
    """Return the response frame in parts, with large records fields by reference."""
    return _framed_parts(_response_start(correlation_id, api, version), message, version)


def encode_response_in_slices(
    correlation_id: int, api: Api, version: int, message: object
) -> Generator[None, None, list[Buffer]]:
    """Encode the same parts in slices: a generator that yields after every slice and returns the parts."""
    start = _response_start(correlation_id, api, version)
    parts: list[Buffer] = []
    last = yield from sliced_encoder(type(message), version)(message, start, parts)
    parts.append(last)
    _INT32.pack_into(start, 0, sum(map(len, parts)) - SIZE_PREFIX_BYTES)
    return parts


_INT32: Final = Struct(">i")
_FIXED_PART: Final = Struct(">hhi")
_CLIENT_ID_LENGTH: Final = Struct(">h")
_REQUEST_START: Final = Struct(">ihhih")
_RESPONSE_START: Final = Struct(">ii")
_RESPONSE_START_FLEXIBLE: Final = Struct(">iix")


def _client_id(buffer: Buffer) -> tuple[str | None, int]:
    (length,) = _CLIENT_ID_LENGTH.unpack_from(buffer, _FIXED_PART.size)
    start = _FIXED_PART.size + 2
    stop = start + length
    if length == -1:
        return None, start
    if length < 0 or stop > len(buffer):
        raise DecodeError(f"request header, byte {start}: client id: length {length}, {len(buffer) - start} bytes left")
    try:
        return str(buffer[start:stop], "utf-8"), stop
    except UnicodeDecodeError:
        raise DecodeError(f"request header, byte {start}: client id: text that is not UTF-8") from None


def _response_header_is_flexible(api: Api, version: int) -> bool:
    return api.flexible_in(version) and api.key is not ApiKey.API_VERSIONS


def _request_start(correlation_id: int, api: Api, version: int, client_id: str | None) -> bytearray:
    """Return everything before the body, with a size of zero, which is filled in later."""
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    start = bytearray(_REQUEST_START.pack(0, api.key, version, correlation_id, length))
    start += name
    if api.flexible_in(version):
        start.append(0)
    return start


def _response_start(correlation_id: int, api: Api, version: int) -> bytearray:
    start = _RESPONSE_START_FLEXIBLE if _response_header_is_flexible(api, version) else _RESPONSE_START
    return bytearray(start.pack(0, correlation_id))


def _framed(start: bytearray, message: object, version: int) -> bytearray:
    frame = encoder(type(message), version)(message, start, None)
    _INT32.pack_into(frame, 0, len(frame) - SIZE_PREFIX_BYTES)
    return frame


def _framed_parts(start: bytearray, message: object, version: int) -> list[Buffer]:
    parts: list[Buffer] = []
    parts.append(encoder(type(message), version)(message, start, parts))
    _INT32.pack_into(start, 0, sum(map(len, parts)) - SIZE_PREFIX_BYTES)
    return parts
