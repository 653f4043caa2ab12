"""Verifies access tokens (JWT): signature, issuer, audience and times.

The law: the algorithm is one of a fixed list of public-key signatures and fits the type of the key. It is never
``none`` and never a keyed hash (HMAC), for which the public key would be the secret. The keys come from one place,
which the start configuration names; a token cannot name another (``jku``, ``x5u`` and ``jwk`` in its header are
ignored).
"""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from semel.clock import Clock

logger = logging.getLogger("semel.broker.security")

# The accepted signature algorithms, by type of key (``kty``).
_ALGORITHMS: Final[Mapping[str, tuple[str, ...]]] = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
_TIME_S_MAX: Final = 1e12
FETCH_INTERVAL_MS: Final = 60_000
"""The minimum time between two fetches of the keys that tokens with unknown keys cause."""


class MissingExtra(Exception):
    """OAUTHBEARER is configured, and PyJWT or cryptography is not installed."""

    def __init__(self) -> None:
        super().__init__("OAUTHBEARER needs PyJWT and cryptography: pip install 'semel[oauth]'")


@dataclass(frozen=True, slots=True)
class TokenRules:
    """The claims that a token must have. Without ``issuer`` or ``audiences`` any is accepted, as in Kafka."""

    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    user_claim: str = "sub"
    scope_claim: str = "scope"
    clock_skew_s: float = 30.0
    refresh_ms: int = 3_600_000
    """The time after which the keys are fetched again, so that a withdrawn key is not trusted for ever."""


@dataclass(frozen=True, slots=True)
class Accepted:
    user: str
    expires_at_ms: float
    scope: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejected:
    reason: str


class TokenVerifier:
    """Verifies tokens with keys that it fetches. ``fetch`` returns the key set (JWKS) and may block.

    The constructor raises ``MissingExtra`` if PyJWT or cryptography is missing. ``needs_keys`` and ``verify`` may be
    called in the event loop; ``fetch_keys`` blocks and must be called in another thread.
    """

    def __init__(
        self,
        rules: TokenRules,
        *,
        fetch: Callable[[], bytes],
        clock: Clock,
    ) -> None:
        try:
            self._jwt: Any = importlib.import_module("jwt")
            importlib.import_module("cryptography")
        except ImportError:
            raise MissingExtra from None
        self._rules = rules
        self._fetch = fetch
        self._clock = clock
        self._keys: Mapping[str | None, _Key] = {}
        self._fetched_at_ms: float | None = None

    def needs_keys(self, token: str) -> bool:
        """Whether the keys must be fetched before this token can be verified."""
        fetched_at_ms, now_ms = self._fetched_at_ms, self._clock.monotonic_ms()
        if fetched_at_ms is None or now_ms >= fetched_at_ms + self._rules.refresh_ms:
            return True
        if now_ms < fetched_at_ms + FETCH_INTERVAL_MS:
            return False
        try:
            return self._key(self._jwt.get_unverified_header(token)) is None
        except (self._jwt.PyJWTError, RecursionError):
            return False  # Not a token: ``verify`` rejects it with any keys.

    def fetch_keys(self) -> None:
        """Fetch the keys. If that fails, it is logged and the old keys stay until the next fetch."""
        now_ms = self._clock.monotonic_ms()
        if self._fetched_at_ms is not None and now_ms < self._fetched_at_ms + min(
            FETCH_INTERVAL_MS, self._rules.refresh_ms
        ):
            return  # They were fetched meanwhile, for another connection.
        self._fetched_at_ms = now_ms
        try:
            self._keys = self._read(json.loads(self._fetch()))
        except Exception as error:  # Errors of the network, of files, or in the document.
            logger.error("the keys for OAUTHBEARER could not be fetched: %s: %s", type(error).__name__, error)

    def verify(self, token: str) -> Accepted | Rejected:
        rules = self._rules
        try:
            key = self._key(self._jwt.get_unverified_header(token))
            if key is None:
                return Rejected("it is signed with a key that is not known")
            claims: Mapping[str, Any] = self._jwt.decode(
                token,
                key.key,
                algorithms=list(key.algorithms),
                issuer=rules.issuer,
                audience=list(rules.audiences) or None,
                # Times are compared below, with the injected clock.
                options={
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                    "verify_aud": bool(rules.audiences),
                    "require": ["exp", "iat", *(["iss"] if rules.issuer is not None else [])],
                },
            )
        except (self._jwt.PyJWTError, RecursionError) as error:  # Some PyJWT versions do not limit JSON's nesting.
            return Rejected(f"the token is not valid: {type(error).__name__}")
        return self._judged(claims)

    def _judged(self, claims: Mapping[str, Any]) -> Accepted | Rejected:
        now_s, skew_s = self._clock.now_ms() / 1000, self._rules.clock_skew_s
        for name in ("exp", "iat", "nbf"):
            if name in claims and not _is_time(claims[name]):
                return Rejected(f"{name} of the token is no time")
        if now_s >= claims["exp"] + skew_s:
            return Rejected("the token has expired")
        for name in ("iat", "nbf"):
            if name in claims and claims[name] > now_s + skew_s:
                return Rejected(f"the token is of the future, by its {name}")
        user = claims.get(self._rules.user_claim)
        if not isinstance(user, str) or not user:
            return Rejected(f"the token has no {self._rules.user_claim}")
        scope = claims.get(self._rules.scope_claim)
        scopes = scope.split() if isinstance(scope, str) else scope if isinstance(scope, list) else []
        return Accepted(user, claims["exp"] * 1000, tuple(map(str, scopes)))

    def _key(self, header: Mapping[str, Any]) -> _Key | None:
        """Return the key that the token names (``kid``).

        If it names none and there is only one key, return that one.
        """
        keys, name = self._keys, header.get("kid")
        if name is None and len(keys) == 1:
            return next(iter(keys.values()))
        return keys.get(name)

    def _read(self, document: Mapping[str, Any]) -> dict[str | None, _Key]:
        found: dict[str | None, _Key] = {}
        for entry in document["keys"]:
            allowed = _ALGORITHMS.get(entry.get("kty"), ())
            declared = entry.get("alg")
            algorithms = allowed if declared is None else tuple(name for name in allowed if name == declared)
            if algorithms and entry.get("use") in (None, "sig"):
                found[entry.get("kid")] = _Key(self._jwt.PyJWK(entry, algorithms[0]).key, algorithms)
        return found


def _is_time(value: object) -> bool:
    """Whether a claim is a usable time. Python's JSON parser also accepts NaN, with which every comparison is false."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _TIME_S_MAX


@dataclass(frozen=True, slots=True)
class _Key:
    key: Any
    algorithms: tuple[str, ...]
