"""Who the client is and whom it trusts: settings, mechanisms, and what becomes of a refusal."""

from __future__ import annotations

from random import Random

import pytest

from semel import blocking
from semel.client.config.producer import ProducerConfig
from semel.client.security.config import SecurityConfig
from semel.client.security.sasl import mechanism_for, token_provider
from semel.client.security.tls import tls_context
from semel.errors import AuthorizationFailed, ErrorCode
from semel.security.sasl.client import OAuthBearer, Plain, SaslError, Scram
from semel.security.sasl.login import Authentication
from semel.security.sasl.scram_client import ScramExchange
from semel.security.security_protocol import SecurityProtocol
from semel.settings import SettingError
from semel.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from semel.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="al\\"ice" password=secret;'


BEARER: dict[str, object] = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "OAUTHBEARER",
    "sasl_oauthbearer_token_endpoint_url": "https://idp.example/token",
    "sasl_oauthbearer_client_credentials_client_id": "billing",
    "sasl_oauthbearer_client_credentials_client_secret": "hunter2",
}


def _load(**settings: object) -> SecurityConfig:
    return ProducerConfig.load({"bootstrap_servers": "localhost:9092", **settings}).client.security


def test_nothing_is_secured_unless_asked_for() -> None:
    security = _load()
    assert security.security_protocol is SecurityProtocol.PLAINTEXT
    assert not security.security_protocol.uses_tls


def test_user_and_password_come_from_either_of_the_two_names() -> None:
    both = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    assert _load(**both, sasl_jaas_config=JAAS).credentials() == ('al"ice', "secret")
    assert _load(**both, sasl_username="bob", sasl_password="hunter2").credentials() == ("bob", "hunter2")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"security_protocol": "SASL_SSL"}, "needs sasl.mechanism"),
        ({"sasl_mechanism": "PLAIN"}, "contradicts security.protocol=PLAINTEXT"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "u"}, "needs sasl.password"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"}, "one of PLAIN"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}, "sasl_oauthbearer_token_provider"),
        ({**BEARER, "sasl_oauthbearer_token_provider": str}, "both are set"),
        ({**BEARER, "sasl_oauthbearer_token_endpoint_url": "idp.example/token"}, "https://host/path"),
        ({**BEARER, "sasl_oauthbearer_token_endpoint_url": "file:///token"}, "https://host/path"),
        ({**BEARER, "sasl_oauthbearer_token_endpoint_url": "https://idp:port/"}, "is no address"),
        ({**BEARER, "sasl_oauthbearer_token_endpoint_url": "http://idp.example/"}, "in the clear"),
        ({**BEARER, "sasl_oauthbearer_token_endpoint_url": "http://localhost/"}, "allow.http=true allows http"),
        (
            {
                **BEARER,
                "sasl_oauthbearer_token_endpoint_url": "http://idp.example/",
                "sasl_oauthbearer_token_endpoint_allow_http": True,
            },
            "in the clear",
        ),
        ({**BEARER, "sasl_oauthbearer_client_credentials_client_id": None}, "needs sasl.*client.id, or clientId="),
        ({**BEARER, "sasl_oauthbearer_client_credentials_client_secret": ""}, "needs sasl.*client.secret, or client"),
        ({**BEARER, "sasl_login_callback_handler_class": "my.Handler"}, "one of org.apache.kafka"),
        ({"security_protocol": "TLS"}, "PLAINTEXT, SSL"),
        ({"ssl_truststore_type": "JKS"}, "PEM"),
    ],
)
def test_contradictions_are_refused_and_named(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        _load(**settings)


def test_a_file_that_is_not_there_is_named_with_its_setting() -> None:
    with pytest.raises(SettingError, match=r"ssl.truststore.location=/nowhere.pem cannot be used"):
        tls_context(_load(security_protocol="SSL", ssl_truststore_location="/nowhere.pem"))


def test_half_of_a_key_pair_is_refused() -> None:
    with pytest.raises(SettingError, match="belong together"):
        tls_context(_load(security_protocol="SSL", ssl_keystore_key="-----BEGIN"))


def test_a_password_is_never_shown() -> None:
    security = _load(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_username="u", sasl_password="hunter2"
    )
    assert "hunter2" not in repr(security)
    with pytest.raises(SettingError) as raised:
        _load(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_password="hunter2")
    assert "hunter2" not in str(raised.value)


def test_client_credentials_come_from_either_of_the_two_names() -> None:
    security = _load(**BEARER, sasl_oauthbearer_scope="kafka")
    assert security.client_credentials() == ("billing", "hunter2", "kafka")
    jaas = 'org.apache.kafka...OAuthBearerLoginModule required clientId="billing" clientSecret="hunter2" scope="kafka";'
    names = ("sasl_oauthbearer_client_credentials_client_id", "sasl_oauthbearer_client_credentials_client_secret")
    older = {name: value for name, value in BEARER.items() if name not in names}
    assert _load(**older, sasl_jaas_config=jaas).client_credentials() == ("billing", "hunter2", "kafka")


def test_a_file_of_java_s_client_is_taken_as_it_is() -> None:
    """As Kafka's documentation has it: the classes are known by name, and nothing is loaded."""
    package = "org.apache.kafka.common.security.oauthbearer"
    security = _load(
        **BEARER,
        sasl_jaas_config=f"{package}.OAuthBearerLoginModule required ;",
        sasl_login_callback_handler_class=f"{package}.OAuthBearerLoginCallbackHandler",
        sasl_oauthbearer_jwt_retriever_class=f"{package}.ClientCredentialsJwtRetriever",
    )
    assert security.client_credentials() == ("billing", "hunter2", None)


def test_a_client_secret_is_never_shown() -> None:
    security = _load(**BEARER)
    assert "hunter2" not in repr((security, security.client_credentials(), token_provider(security)))
    for wrong in ("https://user:hunter2@idp/", "https://hunter2@idp/"):
        with pytest.raises(SettingError) as raised:
            _load(**{**BEARER, "sasl_oauthbearer_token_endpoint_url": wrong})
        assert "hunter2" not in str(raised.value)


def test_clients_of_one_process_share_a_token_endpoint() -> None:
    assert token_provider(_load(**BEARER)) is token_provider(_load(**BEARER))
    assert token_provider(_load(**BEARER)) is not token_provider(_load(**BEARER, sasl_oauthbearer_scope="other"))


def test_plain_and_oauthbearer_say_what_their_standards_say() -> None:
    assert Plain("user", "pencil").first() == b"\0user\0pencil"
    bearer = OAuthBearer("token")
    assert bearer.first() == b"n,,\x01auth=Bearer token\x01\x01"
    assert bearer.answer(b"") is None
    assert bearer.answer(b'{"status":"invalid_token"}') == b"\x01"


def test_scram_agrees_with_the_example_of_rfc_7677() -> None:
    exchange = ScramExchange("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert exchange.client_first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    server_first = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = exchange.client_final(server_first)
    assert final.endswith(b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    exchange.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize(
    ("challenge", "message"),
    [
        (b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (b"r=mine,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (b"r=mine-more,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1", "iterations"),
        (b"r=mine-more,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=99999999", "iterations"),
        (b"r=mine-more,s=&&&,i=4096", "base64"),
    ],
)
def test_a_challenge_that_breaks_the_protocol_ends_the_exchange(challenge: bytes, message: str) -> None:
    with pytest.raises(SaslError, match=message):
        Scram("SCRAM-SHA-256", "user", "pencil", "mine").answer(challenge)


def test_a_broker_that_cannot_prove_itself_is_not_believed() -> None:
    scram = Scram("SCRAM-SHA-512", "user", "pencil", "mine")
    scram.answer(b"r=mine-more,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    with pytest.raises(SaslError, match="could not prove"):
        scram.answer(b"v=AAAA")


def test_each_connection_has_a_nonce_of_its_own() -> None:
    security = _load(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-256", sasl_username="u", sasl_password="p"
    )
    random = Random(1)
    assert mechanism_for(security, random).first() != mechanism_for(security, random).first()


def test_authentication_goes_from_handshake_to_exchange_to_done() -> None:
    authentication = Authentication(Plain("user", "pencil"))
    assert authentication.first() == SaslHandshakeRequest("PLAIN")
    step = authentication.answered(SaslHandshakeResponse(0, ["PLAIN"]))
    assert step == SaslAuthenticateRequest(b"\0user\0pencil")
    assert authentication.answered(SaslAuthenticateResponse(0, None, b"", 60_000)) is None
    assert authentication.session_lifetime_ms == 60_000


def test_a_mechanism_that_the_broker_does_not_know_is_named_with_those_it_knows() -> None:
    authentication = Authentication(Plain("user", "pencil"))
    with pytest.raises(AuthorizationFailed, match=r"knows no PLAIN; it knows SCRAM-SHA-256") as raised:
        authentication.answered(SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["SCRAM-SHA-256"]))
    assert raised.value.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM


def test_a_wrong_password_is_a_fatal_error_with_the_brokers_words() -> None:
    authentication = Authentication(Plain("user", "wrong"))
    authentication.answered(SaslHandshakeResponse(0, ["PLAIN"]))
    with pytest.raises(AuthorizationFailed, match="Invalid username"):
        authentication.answered(
            SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, "Invalid username or password", b"")
        )


def test_a_client_that_is_to_authenticate_says_so_when_it_is_made() -> None:
    with pytest.raises(SettingError, match=r"needs sasl\.mechanism"):
        blocking.Producer(bootstrap_servers="localhost:9092", security_protocol="SASL_SSL")
