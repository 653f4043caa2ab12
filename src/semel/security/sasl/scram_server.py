"""SCRAM on the broker's side. The messages are described in ``scram.py``.

For an unknown user the whole exchange runs with a credential that no password fits (``unknown_users.py``): no branch
here depends on whether the user exists.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from typing import Final

from semel.security.sasl import scram
from semel.security.sasl.scram_credentials import ScramCredential
from semel.security.sasl.server import OTHER_IDENTITY, Authenticated, Challenge, Refused, Step
from semel.wire.codes import ScramMechanism

# The gs2-header says whether the client uses channel binding, and has its authorization id. The message itself ("bare")
# follows.
_CLIENT_FIRST: Final = re.compile(
    r"(?P<header>(?P<binding>[^,]+),(?:a=(?P<identity>[^,]+))?,)"
    r"(?P<bare>n=(?P<name>[^,]+),r=(?P<nonce>[!-+\--~]+)(?P<extensions>(?:,[A-Za-z]+=[^,]+)*))"
)
_CLIENT_FINAL: Final = re.compile(
    r"(?P<without_proof>c=(?P<binding>[^,]+),r=(?P<nonce>[!-+\--~]+)(?:,[A-Za-z]+=[^,]+)*),p=(?P<proof>[^,]+)"
)
# "n": the client does not support channel binding. "y": it does, but has seen that this broker offers no mechanism with
# it.
_WITHOUT_BINDING: Final = frozenset({"n", "y"})

_MALFORMED: Final = Refused("not a message of SCRAM")
_WRONG: Final = Refused("wrong user or password")


class ScramServer:
    """One SCRAM exchange. ``credential_of`` returns a credential for every name; ``nonce`` was never used before."""

    def __init__(self, mechanism: ScramMechanism, credential_of: Callable[[str], ScramCredential], nonce: str) -> None:
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._own_nonce = nonce
        self.user: str | None = None
        self._begun: _Begun | None = None

    def step(self, token: bytes) -> Step:
        try:
            message = token.decode()
            return self._first(message) if self._begun is None else self._final(message, self._begun)
        except ValueError:
            return _MALFORMED

    def _first(self, message: str) -> Step:
        found = _CLIENT_FIRST.fullmatch(message)
        if found is None:
            return _MALFORMED
        if found["binding"] not in _WITHOUT_BINDING:
            return Refused("it wants to bind the channel, which is not served")
        user = self.user = scram.plain_name(found["name"])
        if found["identity"] is not None and scram.plain_name(found["identity"]) != user:
            return OTHER_IDENTITY
        if ",tokenauth=true" in found["extensions"].lower():
            return Refused("it wants to log in with a delegation token, which are not served")
        credential = self._credential_of(user)
        if credential.iterations < scram.ITERATIONS_MIN:
            return Refused(f"its password is kept with {credential.iterations} iterations, which is too few")
        nonce = found["nonce"] + self._own_nonce
        challenge = f"r={nonce},s={scram.encode_base64(credential.salt)},i={credential.iterations}"
        self._begun = _Begun(user, credential, found["header"], nonce, f"{found['bare']},{challenge}")
        return Challenge(challenge.encode())

    def _final(self, message: str, begun: _Begun) -> Step:
        found = _CLIENT_FINAL.fullmatch(message)
        if found is None:
            return _MALFORMED
        if scram.decode_base64(found["binding"]) != begun.header.encode():
            return Refused("the channel binding is not the one that it began with")
        if not hmac.compare_digest(found["nonce"], begun.nonce):
            return Refused("the nonce is not the one of this exchange")
        mechanism, credential = self._mechanism, begun.credential
        messages = f"{begun.messages},{found['without_proof']}".encode()
        client_key = scram.exclusive_or(
            scram.decode_base64(found["proof"]), scram.signature(mechanism, credential.stored_key, messages)
        )
        if not hmac.compare_digest(scram.stored_key(mechanism, client_key), credential.stored_key):
            return _WRONG
        verifier = scram.signature(mechanism, credential.server_key, messages)
        return Authenticated(begun.user, f"v={scram.encode_base64(verifier)}".encode())


class _Begun:
    """The state of an exchange after the client's first message."""

    __slots__ = ("credential", "header", "messages", "nonce", "user")

    def __init__(self, user: str, credential: ScramCredential, header: str, nonce: str, messages: str) -> None:
        self.user = user
        self.credential = credential
        self.header = header
        self.nonce = nonce
        self.messages = messages
