"""Declarations of messages: one class for all versions, each field with its type and the versions that have it.

    @message(versions=(0, 5), flexible_since=3)
    class EndTxnResponse:
        throttle_time_ms: int = field(INT32)
        error_code: int = field(INT16)
        producer_id: int | None = field(INT64, since=5, absent=-1)

A declaration is data: ``semel.wire.codec`` compiles it into functions for one version, and the tests derive their
random messages from it. Fields are declared in the order of the wire; tagged fields are written at the end of their
struct, ordered by tag. Every field has a default, which is Kafka's: zero, empty, or the value of ``default``. The law:
a field that a version does not have is skipped when encoding, and has its default after decoding.

An absent value is ``None`` in Python. On the wire it is null if the field is ``nullable``, or the number given as
``absent``, nearly always -1. No code outside of this package uses that number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, dataclass_transform, overload
from uuid import UUID

from semel.types import ZERO_UUID, Buffer

T = TypeVar("T")


class WireType(Generic[T]):
    """A type on the wire; ``T`` is the type of its values in Python."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Fixed(WireType[T]):
    """A number of constant size. ``code`` is its format character in the ``struct`` module."""

    code: str
    size_bytes: int
    zero: T


@dataclass(frozen=True, slots=True)
class Uuid(WireType[UUID]):
    pass


@dataclass(frozen=True, slots=True)
class String(WireType[str]):
    """A string: its length and its UTF-8 bytes."""


@dataclass(frozen=True, slots=True)
class Bytes(WireType[bytes]):
    """Bytes after their length.

    Decoding copies them out of the buffer, because they are kept longer than the request.
    """


@dataclass(frozen=True, slots=True)
class Records(WireType[Buffer]):
    """Record batches: bytes after their length. Decoding does not copy them: the value is a slice of the buffer."""


@dataclass(frozen=True, slots=True)
class Array(WireType[list[T]]):
    element: WireType[T]


@dataclass(frozen=True, slots=True)
class Struct(WireType[T]):
    struct_class: type[T]


BOOL: Final = Fixed("?", 1, False)
INT8: Final = Fixed("b", 1, 0)
INT16: Final = Fixed("h", 2, 0)
UINT16: Final = Fixed("H", 2, 0)
INT32: Final = Fixed("i", 4, 0)
UINT32: Final = Fixed("I", 4, 0)
INT64: Final = Fixed("q", 8, 0)
FLOAT64: Final = Fixed("d", 8, 0.0)
UUID_: Final = Uuid()
STRING: Final = String()
BYTES: Final = Bytes()
RECORDS: Final = Records()


OWN_TAGS_SINCE: Final = 10_000
"""Tagged fields with this tag or a higher one are Semel's own, and are sent only between its brokers."""
# The limit in every version, also if the length field has more than two bytes: Kafka's clients refuse longer strings.
STRING_SIZE_BYTES_MAX: Final = 32767


@overload
def array(element: WireType[T]) -> Array[T]: ...


@overload
def array(element: type[T]) -> Array[T]: ...
def array(element: Any) -> Any:
    return Array(element if isinstance(element, WireType) else Struct(element))


@dataclass(frozen=True, slots=True)
class Field:
    """One declared field. Version bounds are inclusive; ``None`` means no bound."""

    name: str
    type: WireType[Any]
    since: int
    until: int | None
    nullable_since: int | None
    tag: int | None
    default: Any
    absent: int | None

    def exists_in(self, version: int) -> bool:
        return self.since <= version and (self.until is None or version <= self.until)

    def nullable_in(self, version: int) -> bool:
        return self.nullable_since is not None and version >= self.nullable_since


@dataclass(frozen=True, slots=True)
class Versions:
    first: int
    last: int
    flexible_since: int | None

    def flexible_in(self, version: int) -> bool:
        """Flexible versions have compact lengths and a section of tagged fields after every struct."""
        return self.flexible_since is not None and version >= self.flexible_since


_UNSET: Final[Any] = object()


@overload
def field(
    wire_type: WireType[T], *, since: int = 0, until: int | None = None, tag: int | None = None, default: T = _UNSET
) -> T: ...
@overload
def field(
    wire_type: Fixed[int],
    *,
    absent: int,
    since: int = 0,
    until: int | None = None,
    tag: int | None = None,
    default: int = _UNSET,
) -> int | None: ...
@overload
def field(
    wire_type: WireType[T],
    *,
    nullable: int,
    since: int = 0,
    until: int | None = None,
    tag: int | None = None,
    default: T | None = _UNSET,
) -> T | None: ...
@overload
def field(wire_type: type[T], *, since: int = 0, until: int | None = None, tag: int | None = None) -> T: ...
@overload
def field(
    wire_type: type[T],
    *,
    nullable: int,
    since: int = 0,
    until: int | None = None,
    tag: int | None = None,
    default: None = _UNSET,
) -> T | None: ...
def field(
    wire_type: Any,
    *,
    since: int = 0,
    until: int | None = None,
    nullable: int | None = None,
    tag: int | None = None,
    default: Any = _UNSET,
    absent: int | None = None,
) -> Any:
    """Declare a field with its wire type, or with the struct that it holds.

    ``nullable`` is the first version in which it may be null, ``absent`` the number that means no value: both are
    ``None`` in Python, and a field with ``absent`` has the default ``None``. ``tag`` makes it a tagged field.
    """
    if not isinstance(wire_type, WireType):
        wire_type = Struct(wire_type)
    if default is _UNSET:
        default = _kafka_default(wire_type) if absent is None else None
    metadata = {"wire": (wire_type, since, until, nullable, tag, default, absent)}
    if is_shared(default):
        return dataclasses.field(default=default, metadata=metadata)
    return dataclasses.field(default_factory=type(default), metadata=metadata)


@overload
@dataclass_transform()
def struct(cls: type[T]) -> type[T]: ...
@overload
@dataclass_transform()
def struct(*, frozen: bool) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform()
def struct(cls: type[T] | None = None, *, frozen: bool = False) -> Any:
    """Declare a struct that messages contain.

    Freeze a struct that is small and nearly always has its default values: all messages then share one instance.
    """

    def declare(cls: type[T]) -> type[T]:
        return dataclass(slots=True, frozen=frozen)(cls)

    return declare if cls is None else declare(cls)


@dataclass_transform()
def message(*, versions: tuple[int, int], flexible_since: int | None) -> Callable[[type[T]], type[T]]:
    """Declare a message: its first and last version, and the first one with compact lengths and tagged fields."""

    def declare(cls: type[T]) -> type[T]:
        cls.__wire_versions__ = Versions(*versions, flexible_since)  # type: ignore[attr-defined]
        return dataclass(slots=True)(cls)

    return declare


def versions_of(message_class: type[object]) -> Versions:
    versions: Versions = message_class.__wire_versions__  # type: ignore[attr-defined]
    return versions


def fields_of(struct_class: type[object]) -> list[Field]:
    """Return the declared fields of a message or struct, in the order of the constructor."""
    return [
        Field(declared.name, *declared.metadata["wire"])
        for declared in dataclasses.fields(struct_class)  # type: ignore[arg-type]
    ]


def is_shared(default: object) -> bool:
    """Whether all messages can share this default object, because it is immutable."""
    parameters = getattr(default, "__dataclass_params__", None)
    if parameters is not None:
        return bool(parameters.frozen)
    return not isinstance(default, list)


def _kafka_default(wire_type: WireType[Any]) -> Any:
    match wire_type:
        case Fixed():
            return wire_type.zero
        case Uuid():
            return ZERO_UUID
        case String():
            return ""
        case Bytes() | Records():
            return b""
        case Array():
            return []
        case Struct():
            return wire_type.struct_class()
    raise AssertionError(wire_type)
