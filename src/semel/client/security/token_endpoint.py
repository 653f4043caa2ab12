"""Tokens from an authorization server: the client-credentials grant of OAuth 2 (RFC 6749, 4.4), as in Kafka's clients.

The law: the secret is sent to the address that was set and nowhere else (redirects are not followed, proxies not used),
and appears in no message. A token is used until four fifths of its lifetime have passed; while the server does not
answer, until its end. A refusal by the server is final, like a wrong password.

A call blocks: clients make it in a thread (``drivers/tokens.py``).
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote_plus, urlencode, urlsplit

from semel.client.security.config import SecurityConfig
from semel.client.security.sasl import check_token
from semel.client.security.tls import endpoint_tls_context
from semel.errors import AuthorizationFailed, ErrorCode
from semel.security.sasl.client import SaslError
from semel.settings import SettingError

_USED_SHARE: Final = 0.8
_LIFETIME_S_MAX: Final = 24 * 3600
_ANSWER_BYTES_MAX: Final = 64 * 1024
_REASON_LENGTH_MAX: Final = 200
_OK: Final = (200, 201)
# Client errors (below 500) after which another attempt may succeed, and server errors after which none will.
_LATER: Final = (408, 429)
_NEVER: Final = (501, 505)


class Answer(NamedTuple):
    status: int
    body: bytes


Post: TypeAlias = Callable[[Mapping[str, str], bytes], Answer]
"""Sends headers and body to the token endpoint. Raises ``OSError`` if there is no answer."""


def token_endpoint(security: SecurityConfig) -> TokenEndpoint:
    """Return this process's endpoint for these settings: short-lived clients, as in Spark's tasks, share its token."""
    return _shared(security, os.getpid())  # A fork may copy a held lock.


@lru_cache(maxsize=64)
def _shared(security: SecurityConfig, pid: int) -> TokenEndpoint:
    return TokenEndpoint(security)


class TokenEndpoint:
    """Returns a valid token when it is called.

    Raises ``SaslError`` or, if a retry cannot help, ``AuthorizationFailed``.
    """

    def __init__(
        self,
        security: SecurityConfig,
        *,
        post: Post | None = None,
        now_s: Callable[[], float] = time.monotonic,
        wall_s: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        assert security.sasl_oauthbearer_token_endpoint_url is not None
        self._url = security.sasl_oauthbearer_token_endpoint_url
        self._security = security
        self._credentials = security.client_credentials()
        self._post = post or _Http(security)
        self._now_s = now_s
        self._wall_s = wall_s
        self._sleep = sleep
        self._lock = threading.Lock()
        self._token = ""
        self._renewed_from_s = self._expires_s = float("-inf")

    def __repr__(self) -> str:
        return f"<TokenEndpoint {self._url} {self._credentials.client_id}>"

    def __call__(self) -> str:
        with self._lock:
            if self._now_s() >= self._renewed_from_s:
                self._renew()
            return self._token

    def _renew(self) -> None:
        try:
            token, lifetime_s = self._fetched()
        except (SaslError, AuthorizationFailed):
            # A refusal may pass, too, until the old token ends: the server is being deployed or configured.
            if self._now_s() < self._expires_s:
                return
            raise
        now_s = self._now_s()
        self._token = token
        self._expires_s = now_s + lifetime_s
        self._renewed_from_s = now_s + lifetime_s * _USED_SHARE

    def _fetched(self) -> tuple[str, float]:
        """Return a new token and its lifetime in seconds; retries for ``sasl.login.retry.backoff.max.ms``."""
        pause_s = self._security.sasl_login_retry_backoff_ms / 1000
        end_s = self._now_s() + self._security.sasl_login_retry_backoff_max_ms / 1000
        while True:
            try:
                return self._asked()
            except SaslError:
                left_s = end_s - self._now_s()
                if left_s <= 0:
                    raise
            self._sleep(min(pause_s, left_s))
            pause_s *= 2

    def _asked(self) -> tuple[str, float]:
        client_id, secret, scope = self._credentials
        if self._security.sasl_oauthbearer_header_urlencode:
            client_id, secret = quote_plus(client_id), quote_plus(secret)
        headers = {
            "Accept": "application/json",
            "Authorization": "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode(),
            "Content-Type": "application/x-www-form-urlencoded",
        }
        form = {"grant_type": "client_credentials", **({} if scope is None else {"scope": scope})}
        try:
            status, body = self._post(headers, urlencode(form).encode())
        except SettingError as error:
            raise self._refused(str(error)) from None
        except ssl.SSLCertVerificationError as error:
            raise self._refused(
                f"its certificate is not trusted: {error.verify_message}. Look at ssl.truststore"
            ) from None
        except OSError as error:
            raise SaslError(self._told(f"it cannot be asked: {error or type(error).__name__}")) from None
        document = _document(body)
        if status in _OK:
            return self._token_in(document)
        reason = f"it answered with status {status}{self._reason(document)}"
        if status in _LATER or (status >= 500 and status not in _NEVER):
            raise SaslError(self._told(reason))
        raise self._refused(reason)

    def _token_in(self, document: Mapping[str, Any]) -> tuple[str, float]:
        token = document.get("access_token")
        try:
            check_token(token)
        except SaslError as error:
            raise SaslError(self._told(f"its answer has no access_token that can be used: {error}")) from None
        assert isinstance(token, str)
        lifetime_s = document.get("expires_in")
        if isinstance(lifetime_s, str) and lifetime_s.isascii() and lifetime_s.isdigit():
            lifetime_s = int(lifetime_s)  # Some servers write it as text.
        if not isinstance(lifetime_s, int | float):
            expires_s = _claims(token).get("exp")
            # Without either, the token is used once.
            lifetime_s = expires_s - int(self._wall_s()) if isinstance(expires_s, int | float) else 0
        return token, float(max(0, min(lifetime_s, _LIFETIME_S_MAX)))

    def _reason(self, document: Mapping[str, Any]) -> str:
        """Return what the server says about a refusal, without the secret that it may repeat."""
        said = ": ".join(str(document[name]) for name in ("error", "error_description") if document.get(name))
        said = said.replace(self._credentials.client_secret, "***")
        return f", {said[:_REASON_LENGTH_MAX]!r}" if said else ""

    def _refused(self, reason: str) -> AuthorizationFailed:
        return AuthorizationFailed(
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            f"{self._told(reason)}. Look at client id, secret and scope; this client must be closed",
        )

    def _told(self, reason: str) -> str:
        return f"no token from sasl.oauthbearer.token.endpoint.url={self._url}: {reason}"


class _Http:
    """Sends one request on a connection of its own. http.client follows no redirect and uses no proxy."""

    def __init__(self, security: SecurityConfig) -> None:
        self._security = security
        self._url = urlsplit(security.sasl_oauthbearer_token_endpoint_url or "")

    def __call__(self, headers: Mapping[str, str], body: bytes) -> Answer:
        from http.client import HTTPConnection, HTTPException, HTTPSConnection

        url, security = self._url, self._security
        host, timeout_s = url.hostname or "", security.sasl_login_connect_timeout_ms / 1000
        connection = (
            HTTPSConnection(host, url.port, timeout=timeout_s, context=endpoint_tls_context(security))
            if url.scheme == "https"
            else HTTPConnection(host, url.port, timeout=timeout_s)
        )
        try:
            connection.connect()
            connection.sock.settimeout(security.sasl_login_read_timeout_ms / 1000)
            path = f"{url.path or '/'}{url.query and f'?{url.query}'}"
            connection.request("POST", path, body, dict(headers))
            response = connection.getresponse()
            return Answer(response.status, response.read(_ANSWER_BYTES_MAX))
        except HTTPException as error:
            raise OSError(f"what it answered is not HTTP ({type(error).__name__})") from None
        finally:
            connection.close()


def _document(body: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _claims(token: str) -> Mapping[str, Any]:
    """Return the claims of a JSON web token; nothing for another token."""
    payload = token.split(".")[1] if token.count(".") == 2 else ""
    try:
        return _document(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except ValueError:
        return {}
