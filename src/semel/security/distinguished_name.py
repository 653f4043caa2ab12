"""The subject of an X.509 certificate as text, as in Java and Kafka (RFC 2253): ``CN=duke,OU=payments,O=Org,C=US``.

The law: the same certificate has the same text here and in Apache Kafka, so that mapping rules and ACLs can be moved
between the two. Python's ``ssl`` returns a subject with OpenSSL's names and without the types of its strings, so this
module parses the DER of the certificate up to the subject. Attributes that RFC 2253 has no name for are written as
their object identifier and their bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
# The encodings of the string types, by tag: UTF8String, PrintableString, TeletexString, IA5String, UniversalString,
# BMPString. Java reads the first four as UTF-8.
_STRINGS: Final = {0x0C: "utf-8", 0x13: "utf-8", 0x14: "utf-8", 0x16: "utf-8", 0x1C: "utf-32-be", 0x1E: "utf-16-be"}
_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_LONG_FORM: Final = 0x80
# Java escapes more than RFC 2253 asks for: = and # anywhere, and all blanks at either end.
_ESCAPES: Final = str.maketrans({character: f"\\{character}" for character in ',=+<>#;"\\'} | {"\0": "\\00"})


class _Element(NamedTuple):
    tag: int
    content: bytes
    encoded: bytes


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate in DER. Raises ``ValueError`` if the bytes are not a certificate."""
    fields = list(_elements(_sequence(_sequence(certificate))))
    # The fields: version (not in the oldest certificates), serial number, algorithm, issuer, validity, subject.
    subject = fields[5 if fields[0].tag == _VERSION else 4] if len(fields) > 5 else None
    if subject is None or subject.tag != _SEQUENCE:
        raise ValueError("a certificate without a subject")
    names = [_relative_name(name.content) for name in _elements(subject.content)]
    return ",".join(reversed(names))


def _relative_name(content: bytes) -> str:
    return "+".join(_attribute(pair.content) for pair in _elements(content))


def _attribute(content: bytes) -> str:
    kind, value = _elements(content)
    number = _object_identifier(kind.content)
    keyword, encoding = _KEYWORDS.get(number), _STRINGS.get(value.tag)
    if keyword is None or encoding is None:
        return f"{keyword or number}=#{value.encoded.hex()}"
    return f"{keyword}={_escaped(value.content.decode(encoding, 'replace'))}"


def _escaped(text: str) -> str:
    inner = text.strip(" ")
    leading = len(text) - len(text.lstrip(" "))
    trailing = len(text) - len(inner) - leading
    return "\\ " * leading + inner.translate(_ESCAPES) + "\\ " * trailing


def _sequence(encoded: bytes) -> bytes:
    """Return the content of the sequence at the beginning of these bytes."""
    first = next(_elements(encoded), None)
    if first is None or first.tag != _SEQUENCE:
        raise ValueError("not a certificate in DER")
    return first.content


def _elements(encoded: bytes) -> Iterator[_Element]:
    position = 0
    while position < len(encoded):
        tag, length, start = _header(encoded, position)
        end = start + length
        if end > len(encoded):
            raise ValueError(f"an element of {length} bytes at {position} in {len(encoded)} bytes of DER")
        yield _Element(tag, encoded[start:end], encoded[position:end])
        position = end


def _header(encoded: bytes, position: int) -> tuple[int, int, int]:
    """Return the tag and the length of an element, and the position where its content begins."""
    if position + 2 > len(encoded):
        raise ValueError("DER that ends in the middle of an element")
    tag, length = encoded[position], encoded[position + 1]
    start = position + 2
    if length & _LONG_FORM:
        size = length & ~_LONG_FORM
        start += size
        length = int.from_bytes(encoded[start - size : start], "big")
    return tag, length, start


def _object_identifier(content: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise ValueError("an object identifier without a number")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
