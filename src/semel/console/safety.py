"""The console's protection against other sites and hostile texts.

    hosts     a console that listens on loopback accepts requests for loopback names only: a foreign name that resolves
              to 127.0.0.1 (DNS rebinding) is refused
    session   a random cookie, for this site only (SameSite=Strict), not readable by scripts
    token     a CSRF token in every form: an HMAC of the session with a key of this process
    headers   nothing is loaded from other sites, no inline script or style, no page in a frame

Jinja escapes texts that come from brokers when they are written into a page; the ``safe`` filter is never used for
them.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final

COOKIE: Final = "semel_console"
BODY_BYTES_MAX: Final = 64 * 1024

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}

_SESSION_BYTES: Final = 24
_SESSION_CHARACTERS: Final = len(secrets.token_urlsafe(_SESSION_BYTES))


def is_loopback(host: str) -> bool:
    """Whether an address to listen on, or the host of a request, is loopback."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(header: str) -> str:
    """Return the host name in a Host header, without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].lower()


class Tokens:
    """Sessions and the tokens of their forms."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def session(self, cookies: Mapping[str, str]) -> str | None:
        """Return the session in the cookie; ``None`` if it cannot be one."""
        found = cookies.get(COOKIE, "")
        return found if len(found) == _SESSION_CHARACTERS and found.isascii() else None

    def new_session(self) -> str:
        return secrets.token_urlsafe(_SESSION_BYTES)

    def token(self, session: str) -> str:
        return hmac.new(self._key, session.encode(), hashlib.sha256).hexdigest()

    def is_token(self, session: str, token: str) -> bool:
        return hmac.compare_digest(self.token(session).encode(), token.encode())


def is_own_request(headers: Mapping[str, str]) -> bool:
    """Whether a form was sent from the console's own pages, by the browser's headers; yes if they are absent."""
    site = headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host")
