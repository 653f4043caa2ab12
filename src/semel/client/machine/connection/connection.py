"""One connection to one broker: its state, the versions that the broker supports, and the requests in flight.

    (AWAITING_TOKEN, with OAUTHBEARER) --> CONNECTING --connected--> NEGOTIATING --ApiVersions answered-->
        (AUTHENTICATING, with SASL) --> READY
    READY --most of the session's time has passed (KIP-368)--> AUTHENTICATING

The law: a broker answers in the order it was asked. A second response to the same request is ignored (a network may
repeat it). A response that skips a request means that bytes were lost, and the connection is closed.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Final

from semel.client.machine.connection.calls import Call, InFlight
from semel.clock import NEVER
from semel.errors import DecodeError, ErrorCode, UnsupportedVersion
from semel.security.sasl.login import Authentication
from semel.types import Address, Buffer
from semel.wire.apis import APIS, Api, ApiKey
from semel.wire.codec import decode
from semel.wire.framing import decode_response_header, encode_request_parts
from semel.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from semel.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from semel.wire.messages.sasl_handshake import SaslHandshakeRequest

_API_VERSIONS: Final = APIS[ApiKey.API_VERSIONS]
_ERROR_CODE_BYTES: Final = 2
# From these versions on, tokens are sent in SaslAuthenticate requests, not as bare bytes.
_STEP_VERSION_MIN: Final = {ApiKey.SASL_HANDSHAKE: 1, ApiKey.SASL_AUTHENTICATE: 0}


class ConnectionState(Enum):
    AWAITING_TOKEN = "awaiting a token"
    CONNECTING = "connecting"
    NEGOTIATING = "negotiating"
    AUTHENTICATING = "authenticating"
    READY = "ready"


class BrokerConnection:
    """The state of one connection. It does no I/O: its methods return the bytes to send."""

    def __init__(self, number: int, address: Address, client_id: str, software_version: str) -> None:
        self.number = number
        self.address = address
        self.state = ConnectionState.CONNECTING
        self.in_flight: deque[InFlight] = deque()
        self.active_ms = 0.0
        self.made_after = 0
        """How many outages of the broker had ended when this connection was made: see ``Outages.lost``."""
        self.throttled_until_ms = 0.0
        self.setup_deadline_ms = NEVER
        self.session_deadline_ms = NEVER
        """When this client authenticates again, because of the broker's connections.max.reauth.ms (KIP-368)."""
        self.session_end_ms = NEVER
        self.authenticated_ms = 0.0
        self.authentication: Authentication | None = None
        self.api_versions: ApiVersionsResponse | None = None
        self._client_id = client_id
        self._software_version = software_version
        self._ranges: dict[int, tuple[int, int]] = {}
        self._next_correlation_id = 0

    def version(self, call: Call) -> int:
        """The newest version of a request that both sides support. Raises ``UnsupportedVersion`` if there is none."""
        api = APIS[call.api_key]
        oldest = api.min_version if call.version_min is None else call.version_min
        newest = api.max_version if call.version_max is None else call.version_max
        first, last = self._ranges.get(call.api_key, (0, -1))
        version = min(newest, last)
        if version < max(oldest, first):
            served = f"versions {first} to {last}" if first <= last else "no version"
            raise UnsupportedVersion(
                ErrorCode.UNSUPPORTED_VERSION,
                f"broker {self.address} serves {served} of {api.name}; this client needs one from {oldest} to "
                f"{newest}. Close it, and use a broker of another age",
            )
        return version

    @property
    def is_unused(self) -> bool:
        """Whether no request was sent on this connection since the client authenticated."""
        return not self.in_flight and self.active_ms <= self.authenticated_ms

    def negotiate(self, now_ms: float, deadline_ms: float, *, version: int = _API_VERSIONS.max_version) -> list[Buffer]:
        """Return the bytes of the first request on a connection, ApiVersions."""
        self.state = ConnectionState.NEGOTIATING
        request = ApiVersionsRequest(client_software_name="semel", client_software_version=self._software_version)
        return self._encode(_NEGOTIATION, _API_VERSIONS, version, request, now_ms, deadline_ms)

    def encode(self, call: Call, now_ms: float, deadline_ms: float) -> list[Buffer]:
        """Return the bytes of a request and count it as sent. Raises ``UnsupportedVersion``."""
        version = self.version(call)
        return self._encode(call, APIS[call.api_key], version, call.build(version), now_ms, deadline_ms)

    def answered(self, frame: Buffer, now_ms: float) -> tuple[InFlight, object] | None:
        """Return the request that a response belongs to, and the response; ``None`` if it was answered before."""
        self.active_ms = now_ms
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        if not self.in_flight or correlation_id < self.in_flight[0].correlation_id:
            return None
        head = self.in_flight[0]
        if correlation_id != head.correlation_id:
            raise DecodeError(f"answer {correlation_id} came before answer {head.correlation_id}")
        _, position = decode_response_header(frame, head.api, head.version)
        version = head.version
        if head.api is _API_VERSIONS and _error_code(frame, position) == ErrorCode.UNSUPPORTED_VERSION:
            version = 0  # The broker does not know the version, so it answers in version 0.
        response = decode(head.api.response_class, frame, version, position)
        self.in_flight.popleft()
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self.throttled_until_ms = now_ms + throttle_ms
        return head, response

    def negotiated(self, response: ApiVersionsResponse) -> int | None:
        """Store the broker's API versions. Returns the version to ask in again if the broker refused the first one."""
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            known = [entry for entry in response.api_keys if entry.api_key == ApiKey.API_VERSIONS]
            return min(known[0].max_version, _API_VERSIONS.max_version) if known else 0
        if response.error_code != ErrorCode.NONE:
            raise DecodeError(f"ApiVersions was answered with error {response.error_code}")
        self._ranges = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}
        self.api_versions = response
        self.state = ConnectionState.READY if self.authentication is None else ConnectionState.AUTHENTICATING
        return None

    def authenticate(self, now_ms: float, deadline_ms: float) -> list[Buffer]:
        """Return the bytes of the first request of the authentication."""
        assert self.authentication is not None
        return self._encode_step(self.authentication.first(), now_ms, deadline_ms)

    def authenticate_again(self, authentication: Authentication, now_ms: float, deadline_ms: float) -> list[Buffer]:
        """Start another authentication behind the requests in flight; no other request is sent until it is done."""
        self.authentication = authentication
        self.state = ConnectionState.AUTHENTICATING
        self.setup_deadline_ms = deadline_ms
        self.session_deadline_ms = NEVER
        return self.authenticate(now_ms, deadline_ms)

    def authenticated(self, response: object, now_ms: float, deadline_ms: float) -> list[Buffer] | None:
        """Return the bytes of the next request of the authentication; ``None`` when the connection is ready.

        Raises ``AuthorizationFailed``.
        """
        assert self.authentication is not None
        request = self.authentication.answered(response)
        if request is not None:
            return self._encode_step(request, now_ms, deadline_ms)
        self.state = ConnectionState.READY
        self.authenticated_ms = now_ms
        if lifetime_ms := self.authentication.session_lifetime_ms:
            self.session_deadline_ms = now_ms + self.authentication.renewal_ms
            self.session_end_ms = max(now_ms + lifetime_ms, self.session_deadline_ms)
        return None

    def _encode_step(
        self, request: SaslHandshakeRequest | SaslAuthenticateRequest, now_ms: float, deadline_ms: float
    ) -> list[Buffer]:
        key = ApiKey.SASL_HANDSHAKE if isinstance(request, SaslHandshakeRequest) else ApiKey.SASL_AUTHENTICATE
        step = Call(
            key, build=lambda version: request, answered=_ignore, lost=_ignore, version_min=_STEP_VERSION_MIN[key]
        )
        return self.encode(step, now_ms, deadline_ms)

    def _encode(
        self, call: Call, api: Api, version: int, message: object, now_ms: float, deadline_ms: float
    ) -> list[Buffer]:
        correlation_id = self._next_correlation_id
        parts = encode_request_parts(correlation_id, api, version, message, client_id=self._client_id)
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        self.active_ms = now_ms
        if call.wants_answer:
            self.in_flight.append(InFlight(correlation_id, call, api, version, deadline_ms, now_ms))
        return parts


def _error_code(frame: Buffer, position: int) -> int:
    return int.from_bytes(frame[position : position + _ERROR_CODE_BYTES], "big", signed=True)


def _ignore(*_: object) -> None:
    pass


# ``Connections`` handles the response to ApiVersions itself, so this call needs no callbacks.
_NEGOTIATION: Final = Call(ApiKey.API_VERSIONS, build=lambda version: None, answered=_ignore, lost=_ignore)
