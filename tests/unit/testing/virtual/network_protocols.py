"""Protocols that the network's tests talk through: they remember what happened to them, and can be waited for."""

from __future__ import annotations

import asyncio
from typing import cast


class Recorder(asyncio.Protocol):
    """Remembers every byte and every call."""

    def __init__(self, *, half_open: bool = False) -> None:
        self.data = bytearray()
        self.pieces: list[int] = []
        self.calls: list[str] = []
        self.error: Exception | None = None
        self.made = asyncio.Event()
        self.ended = asyncio.Event()
        self.lost = asyncio.Event()
        self.writable = asyncio.Event()
        self._grown = asyncio.Event()
        self._half_open = half_open

    @property
    def transport(self) -> asyncio.Transport:
        return self._transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.calls.append("made")
        self.made.set()

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.pieces.append(len(data))
        self._grown.set()

    def eof_received(self) -> bool:
        self.calls.append("eof")
        self.ended.set()
        return self._half_open

    def connection_lost(self, error: Exception | None) -> None:
        self.error = error
        self.calls.append("lost")
        self.lost.set()

    def pause_writing(self) -> None:
        self.calls.append("pause")
        self.writable.clear()

    def resume_writing(self) -> None:
        self.calls.append("resume")
        self.writable.set()

    async def received(self, size: int) -> bytes:
        """Wait until so many bytes have come."""
        while len(self.data) < size:
            self._grown.clear()
            await self._grown.wait()
        return bytes(self.data)


class BufferedRecorder(asyncio.BufferedProtocol):
    """Reads into a buffer of its own, which is smaller than what arrives."""

    def __init__(self, buffer_bytes: int = 100) -> None:
        self.data = bytearray()
        self.sizes: list[int] = []
        self.lost = asyncio.Event()
        self._buffer = bytearray(buffer_bytes)
        self._grown = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data += self._buffer[:nbytes]
        self.sizes.append(nbytes)
        self._grown.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set()

    async def received(self, size: int) -> bytes:
        while len(self.data) < size:
            self._grown.clear()
            await self._grown.wait()
        return bytes(self.data)


class Echo(Recorder):
    """Sends back what it gets."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.transport.write(data)
