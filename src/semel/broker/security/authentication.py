"""Authentication of the connections of a SASL listener: SaslHandshake and SaslAuthenticate.

    HANDSHAKE --SaslHandshake 1, the mechanism is served--> EXCHANGE --a proof--> the client's requests are served
              --SaslHandshake 0-------------------------> BARE ------a proof--> the same; tokens had no header
    the client's requests --SaslHandshake, where sessions end (KIP-368)--> HANDSHAKE, for the same user

A proof is a completed exchange of the mechanism, by which the client proves who it is. The law: a connection gets its
principal here, once. Until then only ApiVersions and the two SASL requests are served, in frames of at most
``sasl.server.max.receive.size``, for at most ``LOGIN_MS_MAX``; any other request closes the connection. A failed proof
is answered after ``connection.failed.authentication.delay.ms``, with the same message whether the user exists or not;
nothing is read meanwhile, and then the connection is closed. A second proof must be of the same user with the same
mechanism. When a session has expired, only such a proof is served.

Blocking steps of an exchange are done by a worker, one at a time, and the connection serves nothing meanwhile.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from enum import Enum
from typing import Final

from semel.broker.config.broker_config import BrokerConfig
from semel.broker.network.connection import Connection
from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.security.sasl_mechanisms import sasl_mechanisms
from semel.errors import DecodeError, ErrorCode
from semel.log.worker import Worker
from semel.security.principal import user
from semel.security.sasl.server import Authenticated, BlockingStep, Challenge, Exchange, Refused, Step
from semel.types import Buffer
from semel.wire.apis import APIS, ApiKey
from semel.wire.codec import request_decoder
from semel.wire.framing import decode_request_header
from semel.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from semel.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

logger = logging.getLogger("semel.broker")

LOGIN_MS_MAX: Final = 10_000
"""How long a login may take."""
REAUTHENTICATION_INTERVAL_MS: Final = 1000
"""How long after the start of a login a client may authenticate again. A SaslHandshake before that is served like on a
listener without SASL. Kafka has the same value."""

_HANDSHAKE: Final = APIS[ApiKey.SASL_HANDSHAKE]
_AUTHENTICATE: Final = APIS[ApiKey.SASL_AUTHENTICATE]
_HANDSHAKE_KEY: Final = int(ApiKey.SASL_HANDSHAKE).to_bytes(2, "big")
_WITHOUT_HEADERS: Final = (0).to_bytes(2, "big")
_SIZE_BYTES: Final = 4

Serve = Callable[[Connection, memoryview], None]


class Authenticator:
    """SASL on one listener. Its server calls ``begin`` for each connection, before a byte is read from it.

    ``config`` has the settings of the listener. ``serve`` serves the requests of a client that has logged in. Raises
    ``SettingError`` for settings that contradict each other.
    """

    def __init__(
        self, node: Node, config: BrokerConfig, serve: Serve, make_worker: Callable[[str], Worker], *, has_tls: bool
    ) -> None:
        self.node = node
        self.config = config
        self.serve = serve
        self.mechanisms = sasl_mechanisms(node, config, has_tls=has_tls)
        self.handshake_time = node.metrics.requests(_HANDSHAKE.name)
        self.authenticate_time = node.metrics.requests(_AUTHENTICATE.name)
        self._make_worker = make_worker
        self._worker: Worker | None = None
        self._is_over = False

    def begin(self, connection: Connection) -> None:
        _Login(self, connection)

    def run(self, step: BlockingStep, done: Callable[[Step | BaseException], None]) -> None:
        if self._is_over:
            return  # The broker ends, and closes its connections.
        if self._worker is None:
            self._worker = self._make_worker("semel-authentication")
        self._worker.run(step.run, done)

    def kill(self) -> None:
        self._is_over = True
        if self._worker is not None:
            self._worker.kill()


class _State(Enum):
    HANDSHAKE = "handshake"
    EXCHANGE = "exchange"
    BARE = "bare"


class _Login:
    """The login of one connection: its state, and later its session."""

    __slots__ = (
        "_authenticator",
        "_began_at_ms",
        "_connection",
        "_deadline",
        "_exchange",
        "_expires_at_ms",
        "_frame_bytes_max",
        "_mechanism",
        "_principal",
        "_state",
    )

    def __init__(self, authenticator: Authenticator, connection: Connection) -> None:
        self._authenticator = authenticator
        self._connection = connection
        self._frame_bytes_max = 0
        self._deadline = 0
        self._state = _State.HANDSHAKE
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._principal: str | None = None
        """The principal; None before the first proof."""
        self._began_at_ms = 0.0
        self._expires_at_ms: float | None = None
        """When the session expires, in monotonic time; None if it does not."""
        self._begin()

    def _begin(self) -> None:
        connection, node = self._connection, self._authenticator.node
        self._state = _State.HANDSHAKE
        self._exchange = None
        self._began_at_ms = connection.now_ms()
        self._frame_bytes_max = connection.limit_frames(self._authenticator.config.sasl_server_max_receive_size)
        self._deadline = node.deadlines.add(self, LOGIN_MS_MAX)
        connection.serve = self._serve_login

    def expired(self) -> None:
        """Called when the login took longer than ``LOGIN_MS_MAX``: close the connection."""
        if self._connection.is_open:
            self._connection.refuse(DecodeError(f"it did not prove within {LOGIN_MS_MAX} ms who it is"))

    # Requests before the proof

    def _serve_login(self, connection: Connection, frame: memoryview) -> None:
        if self._state is _State.BARE:
            self._token(_BareAnswer(connection), bytes(frame))
            return
        (api_key, version, correlation_id, client_id), position = decode_request_header(frame)
        authenticator = self._authenticator
        match self._state, api_key:
            case _State.HANDSHAKE, ApiKey.API_VERSIONS if self._principal is None:
                authenticator.serve(connection, frame)
            case _State.HANDSHAKE, ApiKey.SASL_HANDSHAKE if _HANDSHAKE.min_version <= version <= _HANDSHAKE.max_version:
                handshake: SaslHandshakeRequest = request_decoder(SaslHandshakeRequest, version)(frame, position)
                time = authenticator.handshake_time
                self._handshake(Request(connection, _HANDSHAKE, version, correlation_id, client_id, time), handshake)
            case _State.EXCHANGE, ApiKey.SASL_AUTHENTICATE if (
                _AUTHENTICATE.min_version <= version <= _AUTHENTICATE.max_version
            ):
                step: SaslAuthenticateRequest = request_decoder(SaslAuthenticateRequest, version)(frame, position)
                time = authenticator.authenticate_time
                request = Request(connection, _AUTHENTICATE, version, correlation_id, client_id, time)
                self._token(_Answer(request), bytes(step.auth_bytes))
            case _:
                raise DecodeError(f"API key {api_key} version {version} before it has proven who it is")

    def _handshake(self, request: Request, message: SaslHandshakeRequest) -> None:
        served = self._authenticator.mechanisms
        new_mechanism = served.get(message.mechanism)
        if new_mechanism is None:
            response = SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, list(served))
            reason = f"it wants {message.mechanism!r}, which is not served"
            self._refuse(_Refusal(self._connection, request, response), reason)
            return
        if self._principal is not None and message.mechanism != self._mechanism:
            response = SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, [self._mechanism])
            reason = f"it wants {message.mechanism!r} and began with {self._mechanism}"
            self._refuse(_Refusal(self._connection, request, response), reason)
            return
        self._mechanism = message.mechanism
        self._exchange = Exchange(new_mechanism())
        self._state = _State.EXCHANGE if request.version >= 1 else _State.BARE
        request.answer(SaslHandshakeResponse(mechanisms=list(served)))

    def _token(self, answer: _Answer | _BareAnswer, token: bytes) -> None:
        assert self._exchange is not None
        try:
            step = self._exchange.step(token)
        except Exception as error:
            step = self._unexpected(error)
        if not isinstance(step, BlockingStep):
            self._take(answer, step)
            return

        def done(result: Step | BaseException) -> None:
            if not answer.is_abandoned:
                self._take(answer, self._unexpected(result) if isinstance(result, BaseException) else result)

        answer.hold()
        self._authenticator.run(step, done)

    def _unexpected(self, error: BaseException) -> Refused:
        """Log an unexpected exception, and return a refusal. The exception's message is not logged: it may contain the
        password."""
        *_, place = traceback.extract_tb(error.__traceback__)
        kind = type(error).__name__
        logger.error("%s met a bug of the broker: %s in %s:%s", self._mechanism, kind, place.filename, place.lineno)
        self._authenticator.node.metrics.failed.value += 1
        return Refused("an unexpected error")

    def _take(self, answer: _Answer | _BareAnswer, step: Step) -> None:
        if isinstance(step, Authenticated):
            step = self._authenticated(answer, step)
        match step:
            case Challenge(token):
                answer.send(SaslAuthenticateResponse(auth_bytes=token))
            case Refused(reason, client_message):
                response = SaslAuthenticateResponse(
                    ErrorCode.SASL_AUTHENTICATION_FAILED, client_message or self._invalid()
                )
                self._refuse(answer.refusal(self._connection, response), reason)

    def _authenticated(self, answer: _Answer | _BareAnswer, step: Authenticated) -> Step:
        """Begin a session for a valid proof. It is refused if the connection has the principal of another user."""
        principal = str(user(step.user))
        if self._principal not in (None, principal):
            client_message = f"Cannot change principals during re-authentication from {self._principal} to {principal}"
            return Refused(f"it was {self._principal}", client_message)
        connection, node = self._connection, self._authenticator.node
        node.metrics.logins.value += 1
        node.deadlines.discard(self, self._deadline)
        connection.limit_frames(self._frame_bytes_max)
        connection.principal = self._principal = principal
        lifetime_ms = self._lifetime_ms(step)
        if lifetime_ms is None:
            self._expires_at_ms = None
            connection.serve = self._authenticator.serve
        else:
            self._expires_at_ms = connection.now_ms() + lifetime_ms
            connection.serve = self._serve_session
        self._exchange = None
        answer.send(SaslAuthenticateResponse(auth_bytes=step.token, session_lifetime_ms=lifetime_ms or 0))
        return step

    def _lifetime_ms(self, step: Authenticated) -> int | None:
        """Return how long the session lasts, by ``connections.max.reauth.ms`` and by the token; ``None``: for ever."""
        limits = []
        if self._authenticator.config.connections_max_reauth_ms:
            limits.append(self._authenticator.config.connections_max_reauth_ms)
        if step.expires_at_ms is not None:
            limits.append(max(int(step.expires_at_ms - self._authenticator.node.clock.now_ms()), 0))
        return min(limits, default=None)

    def _refuse(self, refusal: _Refusal, reason: str) -> None:
        """Send the refusal after the configured delay, then close the connection."""
        connection, node = self._connection, self._authenticator.node
        node.metrics.logins_refused.value += 1
        node.deadlines.discard(self, self._deadline)
        claimed = None if self._exchange is None else self._exchange.user
        logger.warning("login of %s refused, %s: %s", connection.peer, self._mechanism or "SASL", reason)
        if node.audit is not None:
            node.audit.login_refused(connection.host, mechanism=self._mechanism, user=claimed, reason=reason)
        refusal.hold()
        node.deadlines.add(refusal, self._authenticator.config.connection_failed_authentication_delay_ms)

    def _invalid(self) -> str:
        attempt = "authentication" if self._principal is None else "re-authentication"
        return (
            f"Authentication failed during {attempt} due to invalid credentials with SASL mechanism {self._mechanism}"
        )

    # Requests after the proof, if the session expires

    def _serve_session(self, connection: Connection, frame: memoryview) -> None:
        now_ms = connection.now_ms()
        wants_to_prove = frame[:2] == _HANDSHAKE_KEY and frame[2:4] != _WITHOUT_HEADERS
        if wants_to_prove and now_ms >= self._began_at_ms + REAUTHENTICATION_INTERVAL_MS:
            self._begin()
            self._serve_login(connection, frame)
        elif self._expires_at_ms is not None and now_ms >= self._expires_at_ms:
            raise DecodeError("its session is over, and it did not prove again who it is")
        else:
            self._authenticator.serve(connection, frame)


class _Answer:
    """The answer to one SaslAuthenticate request."""

    def __init__(self, request: Request) -> None:
        self._request = request

    @property
    def is_abandoned(self) -> bool:
        return self._request.is_abandoned

    def hold(self) -> None:
        self._request.delay(None, hold=True)

    def send(self, response: SaslAuthenticateResponse) -> None:
        self._request.answer(response)

    def refusal(self, connection: Connection, response: SaslAuthenticateResponse) -> _Refusal:
        return _Refusal(connection, self._request, response)


class _BareAnswer:
    """The answer to a token without a request header (after SaslHandshake 0), in the order of the answers."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._is_queued = False
        self.parts: list[Buffer] | None = None
        self.is_abandoned = False

    def abandoned(self) -> None:
        self.is_abandoned = True

    def hold(self) -> None:
        if not self._is_queued:
            self._is_queued = True
            self._connection.begin(self, hold=True)

    def send(self, response: SaslAuthenticateResponse) -> None:
        token = response.auth_bytes
        self.parts = [len(token).to_bytes(_SIZE_BYTES, "big") + token]
        if self._is_queued:
            self._connection.answered(self)
        else:
            self._connection.reply(self.parts)

    def refusal(self, connection: Connection, response: SaslAuthenticateResponse) -> _Refusal:
        """Return a refusal without a response: a bare token cannot carry an error, so the connection is only closed."""
        self.hold()
        return _Refusal(connection, None, response)


class _Refusal:
    """A refusal that is sent after a delay; then the connection is closed."""

    def __init__(self, connection: Connection, request: Request | None, response: object) -> None:
        self._connection = connection
        self._request = request
        self._response = response

    def hold(self) -> None:
        if self._request is not None:
            self._request.delay(None, hold=True)

    def expired(self) -> None:
        if self._request is not None and not self._request.is_abandoned:
            self._request.answer(self._response)
        self._connection.close()
