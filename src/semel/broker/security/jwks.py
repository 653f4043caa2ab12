"""Reads the document of keys for OAUTHBEARER (JWKS), only from the URL that the start configuration contains."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from functools import partial
from typing import Final
from urllib.parse import unquote, urlsplit

from semel.settings import SettingError

_SETTING: Final = "sasl.oauthbearer.jwks.endpoint.url"
_THIS_MACHINE: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_SIZE_BYTES_MAX: Final = 1024 * 1024
_TIMEOUT_S: Final = 10.0


def fetcher(url: str) -> Callable[[], bytes]:
    """Return a blocking function that reads the document or raises OSError. Raises SettingError for other URLs."""
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path:
        return partial(_read, unquote(parts.path))
    if (parts.scheme == "https" and parts.hostname) or (parts.scheme == "http" and parts.hostname in _THIS_MACHINE):
        return partial(_download, url)
    raise SettingError(
        _SETTING,
        f"{_SETTING}={url}: expected https://HOST/PATH or file:///PATH. Keys that come without TLS could be anybody's, "
        "so http:// is for this machine only",
    )


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return _limited(file.read(_SIZE_BYTES_MAX + 1))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, so that only the configured URL is used."""

    def redirect_request(self, *_: object) -> None:
        return None


def _download(url: str) -> bytes:
    opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=_TIMEOUT_S) as answer:
        return _limited(answer.read(_SIZE_BYTES_MAX + 1))


def _limited(document: bytes) -> bytes:
    if len(document) > _SIZE_BYTES_MAX:
        raise OSError(f"the document of keys is larger than {_SIZE_BYTES_MAX} bytes")
    return document
