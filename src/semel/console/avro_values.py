"""Decodes Avro values with fastavro, within limits that protect the console against hostile values and schemas.

Any producer can write a record, and any client with the right to register a schema can write a schema. A schema by
which a few bytes would take much time or memory is refused before anything is decoded: an array whose elements take no
bytes (its count alone would make millions of them), nested records that take no bytes, and a schema that contains
itself without end. In a value of another recursive schema each byte may be one level deeper, and deep recursion in the
decoder, which is written in C, would crash the process: such values are decoded only if they are short.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import fastavro

VALUE_BYTES_MAX: Final = 64 * 1024
RECURSIVE_BYTES_MAX: Final = 500
"""The largest value of a recursive schema that is decoded: it has at most this number of levels."""
DEPTH_MAX: Final = 64

PARTS_MAX: Final = 64
"""How many parts a record may have for each byte that it takes at least. Nested records with null fields take none."""

_PRIMITIVES: Final = {
    "null": 0,
    "boolean": 1,
    "int": 1,
    "long": 1,
    "float": 4,
    "double": 8,
    "bytes": 1,
    "string": 1,
}
"""The smallest size in bytes of a value of each primitive type."""


class SchemaRefused(Exception):
    """Values of a schema are not decoded. The message has the reason."""


class NotDecoded(Exception):
    """A value is not decoded. The message has the reason."""


@dataclass(frozen=True, slots=True)
class AvroSchema:
    parsed: Any
    is_recursive: bool

    def decoded(self, payload: bytes) -> Any:
        """Return the decoded value. Raises NotDecoded."""
        bytes_max = RECURSIVE_BYTES_MAX if self.is_recursive else VALUE_BYTES_MAX
        if len(payload) > bytes_max:
            raise NotDecoded(f"{len(payload)} bytes, and up to {bytes_max} are decoded")
        source = io.BytesIO(payload)
        try:
            value = fastavro.schemaless_reader(source, self.parsed, None)
        except Exception as error:
            raise NotDecoded(f"the bytes are not of this schema ({type(error).__name__})") from None
        if source.tell() != len(payload):
            raise NotDecoded("the bytes are not of this schema (some are left)")
        return value


def parse_schema(text: Any) -> AvroSchema:
    """Parse and check the JSON of an Avro schema. Raises SchemaRefused."""
    try:
        schema = json.loads(text)
        walk = _Walk()
        walk.size(schema)
        return AvroSchema(fastavro.parse_schema(schema), walk.is_recursive)
    except SchemaRefused:
        raise
    except Exception as error:
        raise SchemaRefused(f"its schema cannot be read ({type(error).__name__})") from None


class _Size(NamedTuple):
    """The smallest size of a value of a schema: its bytes, and the number of parts that are decoded from them."""

    least_bytes: int
    parts: int


class _Walk:
    """Checks a schema in one pass before it is given to the decoder."""

    def __init__(self) -> None:
        self.is_recursive = False
        self._sizes: dict[str, _Size] = {}
        self._within: set[str] = set()

    def size(self, schema: Any, namespace: str = "", depth: int = 0, direct: frozenset[str] = frozenset()) -> _Size:
        """Return the smallest size of a value of the schema. Raises SchemaRefused.

        ``direct`` are the names of the enclosing records between whose beginning and this schema no byte is read.
        """
        if depth > DEPTH_MAX:
            raise SchemaRefused(f"its schema is nested more than {DEPTH_MAX} deep")
        if isinstance(schema, str):
            return self._named(schema, namespace, direct)
        if isinstance(schema, list):
            for one in schema:
                self.size(one, namespace, depth + 1)
            return _ONE_BYTE  # A union takes at least the byte that says which of its types the value has.
        kind = schema["type"]
        match kind:
            case "array":
                if self.size(schema["items"], namespace, depth + 1).least_bytes == 0:
                    raise SchemaRefused("its schema has a list of elements that take no bytes")
                return _ONE_BYTE
            case "map":
                self.size(schema["values"], namespace, depth + 1)
                return _ONE_BYTE
            case "record" | "error":
                return self._record(schema, namespace, depth, direct)
            case "enum" | "fixed":
                size = _ONE_BYTE if kind == "enum" else _Size(max(int(schema["size"]), 0), 1)
                self._sizes[_full_name(schema, namespace)] = size
                return size
            case _:
                return self.size(kind, namespace, depth + 1, direct)

    def _record(self, schema: Any, namespace: str, depth: int, direct: frozenset[str]) -> _Size:
        name = _full_name(schema, namespace)
        inner, around = name.rpartition(".")[0], direct | {name}
        self._within.add(name)
        fields = [self.size(field["type"], inner, depth + 1, around) for field in schema["fields"]]
        self._within.discard(name)
        size = _Size(sum(one.least_bytes for one in fields), 1 + sum(one.parts for one in fields))
        if size.parts > PARTS_MAX * max(size.least_bytes, 1):
            raise SchemaRefused("its schema has too many parts that take no bytes")
        self._sizes[name] = size
        return size

    def _named(self, name: str, namespace: str, direct: frozenset[str]) -> _Size:
        if name in _PRIMITIVES:
            return _Size(_PRIMITIVES[name], 1)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        known = full if full in self._within or full in self._sizes else name
        if known in direct:
            raise SchemaRefused("its schema contains itself without end")
        if known in self._within:
            self.is_recursive = True
            return _ONE_BYTE  # A union, array or map is between the record and itself, and takes a byte.
        return self._sizes[known]


_ONE_BYTE: Final = _Size(1, 1)


def _full_name(schema: Any, namespace: str) -> str:
    name, own = str(schema["name"]), schema.get("namespace", namespace)
    return name if "." in name or not own else f"{own}.{name}"
