from __future__ import annotations

from semel.log.disk import File


def content(file: File) -> bytes:
    return file.read(0, file.size())
