"""A broker with listeners of every security protocol, for attacks before a client is authenticated."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from semel.testing.certificate import CERTIFICATE, PRIVATE_KEY
from tools.brokers import semel
from tools.hostile.attacks.sessions import PLAIN_PASSWORD, PLAIN_USER
from tools.hostile.trial import SETTINGS
from tools.server import Server

PROTOCOLS: Final = ("SASL_PLAINTEXT", "SSL", "SASL_SSL")


def secured_broker(folder: Path) -> Server:
    """Return the broker, which is not started yet. The canary uses its plain listener."""
    folder.mkdir(parents=True, exist_ok=True)
    keystore = folder / "broker.pem"
    keystore.write_text(PRIVATE_KEY + CERTIFICATE)
    settings = {
        **SETTINGS,
        "ssl.keystore.location": str(keystore),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.plain.without.tls": "true",
        "plain.sasl.jaas.config": f'PlainLoginModule required user_{PLAIN_USER}="{PLAIN_PASSWORD}";',
    }
    return semel(folder, settings=settings, secured=PROTOCOLS)
