"""The SASL mechanisms of a listener, according to its settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from semel.broker.config.broker_config import BrokerConfig
from semel.broker.node import Node
from semel.broker.security.user_credentials import UserCredentials
from semel.metadata.security.user_changes import SECRET_BYTES
from semel.security.sasl import scram
from semel.security.sasl.jaas import jaas_users
from semel.security.sasl.plain_server import PlainServer
from semel.security.sasl.scram_server import ScramServer
from semel.security.sasl.server import ServerMechanism
from semel.settings import SettingError

NewMechanism = Callable[[], ServerMechanism]

_ENABLED: Final = "sasl.enabled.mechanisms"
_NONCE_BYTES: Final = 24


def sasl_mechanisms(node: Node, config: BrokerConfig, *, has_tls: bool) -> dict[str, NewMechanism]:
    """Return the mechanisms of a listener by name: each value makes a mechanism for one exchange.

    ``config`` has the settings of the listener. Raises ``SettingError``.
    """
    if not config.sasl_enabled_mechanisms:
        raise SettingError(_ENABLED, f"{_ENABLED} is empty, and a listener wants SASL")
    users = UserCredentials(lambda: node.image, node.random.randbytes(SECRET_BYTES))
    served: dict[str, NewMechanism] = {}
    for name in config.sasl_enabled_mechanisms:
        if name == "PLAIN":
            served[name] = _plain(users, config, has_tls=has_tls)
        elif name == "OAUTHBEARER":
            served[name] = _oauthbearer(node, config)
        else:
            served[name] = partial(_scram, node, users, name)
    return served


def _scram(node: Node, users: UserCredentials, name: str) -> ServerMechanism:
    mechanism = scram.MECHANISMS[name]
    return ScramServer(mechanism, partial(users.scram, mechanism), node.random.randbytes(_NONCE_BYTES).hex())


def _plain(users: UserCredentials, config: BrokerConfig, *, has_tls: bool) -> NewMechanism:
    if not has_tls and not config.sasl_plain_without_tls:
        raise SettingError(
            _ENABLED,
            f"{_ENABLED} has PLAIN, and the listener has no TLS: passwords could be read on the way. Make it SASL_SSL, "
            "take PLAIN out, or set sasl.plain.without.tls=true",
        )
    configured = jaas_users(config.plain_sasl_jaas_config or "")
    return partial(PlainServer, configured, users.plain)


def _oauthbearer(node: Node, config: BrokerConfig) -> NewMechanism:
    from semel.broker.security.jwks import fetcher
    from semel.security.sasl.access_tokens import MissingExtra, TokenRules, TokenVerifier
    from semel.security.sasl.oauthbearer_server import OAuthBearerServer

    url = config.sasl_oauthbearer_jwks_endpoint_url
    if url is None:
        raise SettingError(_ENABLED, f"{_ENABLED} has OAUTHBEARER, which needs sasl.oauthbearer.jwks.endpoint.url")
    rules = TokenRules(
        issuer=config.sasl_oauthbearer_expected_issuer,
        audiences=config.sasl_oauthbearer_expected_audience or (),
        user_claim=config.sasl_oauthbearer_sub_claim_name,
        scope_claim=config.sasl_oauthbearer_scope_claim_name,
        clock_skew_s=config.sasl_oauthbearer_clock_skew_seconds,
        refresh_ms=config.sasl_oauthbearer_jwks_endpoint_refresh_ms,
    )
    try:
        verifier = TokenVerifier(rules, fetch=fetcher(url), clock=node.clock)
    except MissingExtra as error:
        raise SettingError(_ENABLED, f"{_ENABLED} has OAUTHBEARER: {error}") from None
    return partial(OAuthBearerServer, verifier)
