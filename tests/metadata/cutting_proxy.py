"""A proxy in front of a real server: it cuts connections, refuses new ones, withholds answers, and delays them."""

from __future__ import annotations

import asyncio
from typing import cast

from semel.net.network import SystemNetwork
from tools.ports import HOST


class CuttingProxy:
    """``address`` leads to ``target`` until it is cut."""

    def __init__(self, target_port: int, *, delay_s: float = 0.0, cut_after: int | None = None) -> None:
        """``delay_s``: of each answer. ``cut_after``: of so many answers the last is lost, with its connection."""
        self.target_port = target_port
        self.delay_s = delay_s
        self.loses_next = False
        self.cuts = 0
        self._cut_after = cut_after
        self._answers = 0
        self.withholds_answers = False
        """Requests get through, and nothing comes back."""
        self.withholds_from: bytes | None = None
        """The same, from the request on that has these bytes."""
        self._is_cut = False
        self._server: asyncio.Server | None = None
        self._halves: dict[_Half, None] = {}

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"{HOST}:{self._server.sockets[0].getsockname()[1]}"

    async def start(self) -> None:
        self._server = await asyncio.get_running_loop().create_server(lambda: _Half(self, is_client=True), HOST, 0)

    def cut(self) -> None:
        self._is_cut = True
        for half in list(self._halves):
            half.abort()

    def heal(self) -> None:
        self._is_cut = self.withholds_answers = False
        self.withholds_from = None

    def close(self) -> None:
        self.cut()
        if self._server is not None:
            self._server.close()

    def opened(self, half: _Half) -> bool:
        if self._is_cut:
            return False
        self._halves[half] = None
        return True

    def is_lost(self) -> bool:
        """Whether the answer that comes now is lost."""
        self._answers += 1
        is_lost = self.loses_next or (self._cut_after is not None and self._answers % self._cut_after == 0)
        self.loses_next = False
        self.cuts += is_lost
        return is_lost

    def closed(self, half: _Half) -> None:
        self._halves.pop(half, None)


class _Half(asyncio.Protocol):
    """One side of a connection: the client's, or the one that is made to the server for it."""

    def __init__(self, proxy: CuttingProxy, *, is_client: bool, other: _Half | None = None) -> None:
        self._proxy = proxy
        self._is_client = is_client
        self._other = other
        self._waiting = bytearray()
        self._transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._proxy.opened(self):
            self.abort()
        elif self._other is None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
        else:
            self._other.joined(self)

    async def _connect(self) -> None:
        try:
            await SystemNetwork().connect(
                HOST, self._proxy.target_port, lambda: _Half(self._proxy, is_client=False, other=self)
            )
        except OSError:
            self.abort()

    def data_received(self, data: bytes) -> None:
        if self._is_client and self._proxy.withholds_from is not None and self._proxy.withholds_from in data:
            self._proxy.withholds_answers = True
        if not self._is_client:
            assert self._other is not None
            if self._proxy.is_lost():
                self.abort()
            elif self._proxy.delay_s and not self._proxy.withholds_answers:
                asyncio.get_running_loop().call_later(self._proxy.delay_s, self._other.write, data)
            elif not self._proxy.withholds_answers:
                self._other.write(data)
        elif self._other is None:
            self._waiting += data
        else:
            self._other.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._proxy.closed(self)
        if self._other is not None:
            self._other.abort()

    def joined(self, other: _Half) -> None:
        self._other = other
        other.write(bytes(self._waiting))
        self._waiting.clear()

    def write(self, data: bytes) -> None:
        if self._transport is not None and data:
            self._transport.write(data)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
