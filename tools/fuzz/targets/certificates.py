"""The target for the subject of a client's certificate, which is decoded from DER."""

from __future__ import annotations

import ssl
from random import Random
from typing import Final

from semel.security.distinguished_name import subject_of
from semel.testing.certificate import AUTHORITY, CERTIFICATE
from tools.fuzz.target import Target

_SOUND: Final = tuple(map(ssl.PEM_cert_to_DER_cert, (AUTHORITY, CERTIFICATE)))


def targets() -> list[Target]:
    return [Target("subject of a certificate", _certificate, _check, (ValueError,), rounds=16)]


def _certificate(random: Random) -> bytes:
    return random.choice(_SOUND)


def _check(data: bytes) -> None:
    subject = subject_of(data)
    assert len(subject) <= 8 * len(data), f"{len(data)} bytes have a subject of {len(subject)} characters"
