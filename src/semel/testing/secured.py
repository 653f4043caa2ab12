"""A test's broker with TLS, users and ACLs: its settings, the settings of its clients, and its users and ACLs."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from semel.broker.node import Node
    from semel.security.acls import AclBinding

MECHANISM: Final = "SCRAM-SHA-512"
"""The SASL mechanism that a test's clients use."""


def broker_settings(host: str, *, tls: bool, users: bool, acls: bool) -> dict[str, object]:
    settings: dict[str, object] = {}
    if tls or users:
        settings["listeners"] = f"{protocol(tls=tls, users=users)}://{host}:0"
    if tls:
        from semel.testing import certificate

        settings["ssl_keystore_certificate_chain"] = certificate.CERTIFICATE
        settings["ssl_keystore_key"] = certificate.PRIVATE_KEY
    if users and tls:
        settings["sasl_enabled_mechanisms"] = "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN"
    if acls:
        from semel.broker.config.authorization_config import STANDARD_AUTHORIZER

        settings["authorizer_class_name"] = STANDARD_AUTHORIZER
    return settings


def client_settings(*, tls: bool, user: tuple[str, str] | None) -> dict[str, str]:
    """Return the keyword arguments of a client of Semel, besides ``bootstrap_servers``."""
    settings: dict[str, str] = {}
    if tls or user is not None:
        settings["security_protocol"] = protocol(tls=tls, users=user is not None)
    if tls:
        from semel.testing import certificate

        settings["ssl_truststore_certificates"] = certificate.AUTHORITY
    if user is not None:
        name, password = user
        settings |= {"sasl_mechanism": MECHANISM, "sasl_username": name, "sasl_password": password}
    return settings


def protocol(*, tls: bool, users: bool) -> str:
    transport = "SSL" if tls else "PLAINTEXT"
    return f"SASL_{transport}" if users else transport


async def secure(node: Node, users: Mapping[str, str], acls: Collection[AclBinding]) -> None:
    """Write users, with credentials for both SCRAM mechanisms, and ACLs into the metadata. Existing ones are kept."""
    from semel.metadata.security.acl_changes import create_acls
    from semel.metadata.security.image import security_of
    from semel.metadata.security.user_changes import SECRET_BYTES, Upsertion, alter_users
    from semel.security.sasl.scram import ITERATIONS_MIN, MECHANISMS, salted_password

    known = security_of(node.image).users
    for mechanism in MECHANISMS.values():
        wishes = []
        for name, password in users.items():
            if mechanism not in known.get(name, {}):
                salt = os.urandom(16)
                salted = salted_password(mechanism, password.encode(), salt, ITERATIONS_MIN)
                wishes.append(Upsertion(name, mechanism, ITERATIONS_MIN, salt, salted))
        decide = partial(alter_users, deletions=[], upsertions=wishes, new_secret=os.urandom(SECRET_BYTES))
        decision = await node.cluster.change(decide)
        assert all(result.refusal is None for result in decision.results), decision.results
    if acls:
        created = await node.cluster.change(lambda image: create_acls(image, list(acls)))
        assert all(result.refusal is None for result in created.results), created.results
