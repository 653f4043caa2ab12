"""Messages between a session and a server of the model: a length of four bytes, and a pickled value."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from struct import Struct
from typing import Any, Final

_SIZE: Final = Struct(">i")


def framed(message: object) -> bytes:
    data = pickle.dumps(message)
    return _SIZE.pack(len(data)) + data


class ReceivedMessages:
    """Splits the received bytes into messages."""

    def __init__(self) -> None:
        self._received = b""

    def feed(self, data: bytes) -> Iterator[Any]:
        self._received += data
        while len(self._received) >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._received)
            if len(self._received) < _SIZE.size + size:
                return
            frame = self._received[_SIZE.size : _SIZE.size + size]
            self._received = self._received[_SIZE.size + size :]
            yield pickle.loads(frame)
