"""The subject of a certificate as text: against the certificates of another library, which knows the same RFC."""

from __future__ import annotations

import contextlib
import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from semel.security.distinguished_name import subject_of

KEY = ec.generate_private_key(ec.SECP256R1())
DAY = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
KEYWORDS = {
    NameOID.COMMON_NAME: "CN",
    NameOID.ORGANIZATION_NAME: "O",
    NameOID.ORGANIZATIONAL_UNIT_NAME: "OU",
    NameOID.LOCALITY_NAME: "L",
    NameOID.STATE_OR_PROVINCE_NAME: "ST",
    NameOID.STREET_ADDRESS: "STREET",
    NameOID.DOMAIN_COMPONENT: "DC",
    NameOID.USER_ID: "UID",
}


def certificate(subject: x509.Name) -> bytes:
    builder = x509.CertificateBuilder(
        issuer_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")]),
        subject_name=subject,
        public_key=KEY.public_key(),
        serial_number=1,
        not_valid_before=DAY,
        not_valid_after=DAY,
    )
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


def subject(*pairs: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(kind, value) for kind, value in pairs])


# Java escapes as this does; for other characters the two libraries agree with the RFC.
plain_text = st.text("abcXYZ09 .-_@äß中", min_size=1, max_size=60).filter(lambda text: text == text.strip())


@given(st.lists(st.tuples(st.sampled_from(list(KEYWORDS)), plain_text), max_size=6))
def test_a_subject_is_told_last_name_first_under_the_keywords_of_the_rfc(
    pairs: list[tuple[x509.ObjectIdentifier, str]],
) -> None:
    expected = ",".join(f"{KEYWORDS[kind]}={value}" for kind, value in reversed(pairs))
    name = subject(*pairs)
    assert subject_of(certificate(name)) == expected == name.rfc4514_string()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("Tkac, Adam", r"CN=Tkac\, Adam"),
        ('a+b"c\\d<e>f;g=h#i', r"CN=a\+b\"c\\d\<e\>f\;g\=h\#i"),
        ("  a b  ", r"CN=\ \ a b\ \ "),
        (" ", r"CN=\ "),
        ("a\0b", r"CN=a\00b"),
    ],
)
def test_what_could_be_mistaken_is_escaped_as_java_does(value: str, told: str) -> None:
    assert subject_of(certificate(subject((NameOID.COMMON_NAME, value)))) == told


def test_what_the_rfc_has_no_name_for_is_told_by_number_and_bytes() -> None:
    name = subject((NameOID.COUNTRY_NAME, "US"), (NameOID.EMAIL_ADDRESS, "a@b"), (NameOID.COMMON_NAME, "x"))
    assert subject_of(certificate(name)) == "CN=x,1.2.840.113549.1.9.1=#1603614062,C=US"


def test_names_of_one_place_are_joined() -> None:
    both = x509.RelativeDistinguishedName(
        [x509.NameAttribute(NameOID.COMMON_NAME, "x"), x509.NameAttribute(NameOID.ORGANIZATION_NAME, "y")]
    )
    assert subject_of(certificate(x509.Name([both]))) == "CN=x+O=y"


def test_a_certificate_without_a_name_has_an_empty_subject() -> None:
    assert subject_of(certificate(x509.Name([]))) == ""


@given(st.integers(min_value=0), st.binary(max_size=3))
def test_cut_or_damaged_bytes_are_refused_with_a_value_error_or_read(position: int, damage: bytes) -> None:
    whole = certificate(subject((NameOID.COMMON_NAME, "duke"), (NameOID.ORGANIZATION_NAME, "Org")))
    position %= len(whole)
    for bad in (whole[:position], whole[:position] + damage + whole[position + len(damage) :]):
        with contextlib.suppress(ValueError):
            assert isinstance(subject_of(bad), str)
