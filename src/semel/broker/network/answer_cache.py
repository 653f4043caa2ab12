"""A cache of encoded responses to requests that many clients send with the same bytes: ApiVersions and Metadata.

The key is the request itself (API, version, body), the value a whole response frame. The cache is cleared whenever the
cluster's image changes (``clear``), so a response is always made from the current image. A large response is made in
several turns of the event loop: if the image changes meanwhile, it is sent and not put into the cache.
"""

from __future__ import annotations

from typing import Final

ANSWERS_BYTES_MAX: Final = 16 * 1024 * 1024
KEY_BYTES_MAX: Final = 8 * 1024


class AnswerCache:
    def __init__(self) -> None:
        self._answers: dict[bytes, bytes] = {}
        self._size_bytes = 0
        self.clears = 0
        """How often the cache was cleared."""

    def get(self, key: bytes) -> bytes | None:
        return self._answers.get(key)

    def put(self, key: bytes, frame: bytes, *, clears: int) -> None:
        """Keep a response, unless the cache was cleared since ``clears`` was read, before the response was made."""
        size_bytes = len(key) + len(frame)
        if clears != self.clears or len(key) > KEY_BYTES_MAX or size_bytes > ANSWERS_BYTES_MAX:
            return
        if self._size_bytes + size_bytes > ANSWERS_BYTES_MAX:
            self.clear()
        self._answers[key] = frame
        self._size_bytes += size_bytes

    def clear(self) -> None:
        self._answers.clear()
        self._size_bytes = 0
        self.clears += 1
