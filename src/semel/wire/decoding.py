"""Generates the function that decodes one message class in one version.

The function is flat: structs and arrays become nested loops, neighbouring fields of constant size become one unpack,
and no type is looked up at run time. Laws that it keeps for every byte string:

- a length is compared with the number of bytes left before anything of that length is allocated;
- an array's count is compared with the minimum size of its elements, so memory is bounded by the input;
- the only exception that it raises is ``DecodeError``;
- it consumes every byte: trailing bytes are an error, unless the decoder was compiled ``open_ended``, as all are that
  decode in slices.

There is no recursion: a struct can only contain structs that were declared before it.

A large message is decoded in slices: the same source is compiled as a generator. It yields after every
``SLICE_ELEMENTS`` elements, so that its caller can do other work meanwhile, and refuses a message with more than
``elements_max`` elements. The elements of all arrays count, also numbers, and tagged fields.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from semel.errors import DecodeError
from semel.types import Buffer
from semel.wire import schema
from semel.wire.schema import STRING_SIZE_BYTES_MAX
from semel.wire.source import Source
from semel.wire.varint import continue_unsigned_varint, read_unsigned_varint, skip_tagged_fields

Decoder = Callable[..., Any]
SlicedDecoder = Callable[[Buffer, int, int], Generator[None, None, tuple[Any, int]]]

# Some milliseconds of work, even if each element is a struct of ten fields.
SLICE_ELEMENTS: Final = 2000

TOO_LONG: Final = f"a string has at most {STRING_SIZE_BYTES_MAX} bytes"


def compile_decoder(message_class: type[object], version: int, *, open_ended: bool = False) -> Decoder:
    """Return ``decode(buffer, position=0) -> message``, for a message that reaches from ``position`` to the end.

    With ``open_ended`` trailing bytes are ignored, as Kafka does with requests and with the messages of group members.
    """
    return _DecoderSource(message_class, version, open_ended).compile()


def compile_sliced_decoder(message_class: type[object], version: int) -> SlicedDecoder:
    """Return ``decode(buffer, position, elements_max)``, a generator that returns the message and its element count.

    It is for requests, so trailing bytes are ignored.
    """
    decoder: SlicedDecoder = _DecoderSource(message_class, version, open_ended=True, sliced=True).compile()
    return decoder


class _DecoderSource:
    def __init__(self, message_class: type[object], version: int, open_ended: bool, *, sliced: bool = False) -> None:
        self._message_class = message_class
        self._open_ended = open_ended
        self._sliced = sliced
        self._title = f"decode {message_class.__name__} v{version}{' in slices' if sliced else ''}"
        self._version = version
        self._flexible = schema.versions_of(message_class).flexible_in(version)
        self._run: list[tuple[str, str]] = []
        self._source = Source(
            {
                "refuse": _refusal(f"{message_class.__name__} v{version}"),
                "malformed": (IndexError, UnicodeDecodeError, struct.error),
                "unpack_from": struct.unpack_from,
                "uuid": _uuid,
                "continue_varint": continue_unsigned_varint,
                "read_varint": read_unsigned_varint,
                "skip_tagged": skip_tagged_fields,
            }
        )

    def compile(self) -> Decoder:
        source = self._source
        with source.block("def decode(b, p, elements_max)" if self._sliced else "def decode(b, p=0)"):
            if self._sliced:
                source.line("left = elements_max")
                source.line(f"turn = {SLICE_ELEMENTS}")
                source.line("if False: yield")
            source.line("if type(b) is not memoryview: b = memoryview(b)")
            source.line("end = len(b)")
            with source.block("try"):
                source.line(f"message = {self._struct(self._message_class, '')}")
            source.line("except malformed as error: raise refuse(p, error) from None")
            if not self._open_ended:
                source.line("if p != end: raise refuse(p, f'the message is over and {end - p} bytes are left')")
            source.line("return message, elements_max - left" if self._sliced else "return message")
        decoder: Decoder = source.function("decode", self._title)
        return decoder

    # -- structs

    def _struct(self, struct_class: type[object], path: str) -> str:
        """Emit code that reads every field; return the expression that builds the object."""
        values: dict[str, str] = {}
        tagged: list[schema.Field] = []
        fields = schema.fields_of(struct_class)
        for field in fields:
            if not field.exists_in(self._version):
                values[field.name] = self._default(field)
            elif field.tag is None:
                values[field.name] = self._field(field, path)
            else:
                assert self._flexible, f"{struct_class.__name__}.{field.name} is tagged in version {self._version}"
                tagged.append(field)
        if self._flexible:
            self._tagged_fields(tagged, values, path)
        self._flush()
        arguments = ", ".join(values[field.name] for field in fields)
        return f"{self._source.constant(struct_class)}({arguments})"

    def _tagged_fields(self, tagged: list[schema.Field], values: dict[str, str], path: str) -> None:
        source = self._source
        count, tag, size, stop = (source.name(stem) for stem in ("tags", "tag", "size", "stop"))
        for field in tagged:
            values[field.name] = source.name(field.name)
        self._read(count, "B")
        self._flush()
        for field in tagged:
            source.line(f"{values[field.name]} = {self._default(field)}")
        with source.block(f"if {count}"):
            source.line(f"if {count} > 127: {count}, p = continue_varint(b, p, {count})")
            self._spend(count, f"{path}tagged fields")
            if not tagged:
                source.line(f"p = skip_tagged(b, p, {count})")
                return
            with source.block(f"for _ in range({count})"):
                source.line(f"{tag}, p = read_varint(b, p)")
                source.line(f"{size}, p = read_varint(b, p)")
                source.line(f"{stop} = p + {size}")
                refuse = self._refuse(f"{path}tag {{{tag}}}", f"size {{{size}}}")
                source.line(f"if {stop} > end: {refuse}")
                for field in tagged:
                    with source.block(f"if {tag} == {field.tag}"):
                        value = self._field(field, path)
                        self._flush()
                        source.line(f"{values[field.name]} = {value}")
                        refuse = self._refuse(f"{path}{field.name}", f"it is not {{{size}}} bytes")
                        source.line(f"if p != {stop}: {refuse}")
                        source.line("continue")
                source.line(f"p = {stop}")

    def _default(self, field: schema.Field) -> str:
        if schema.is_shared(field.default):
            return self._source.constant(field.default)
        return "[]" if isinstance(field.default, list) else f"{self._source.constant(type(field.default))}()"

    # -- values

    def _field(self, field: schema.Field, path: str) -> str:
        value = self._value(field.type, field.nullable_in(self._version), f"{path}{field.name}", field.name)
        return value if field.absent is None else f"None if {value} == {field.absent} else {value}"

    def _value(self, wire_type: schema.WireType[Any], nullable: bool, path: str, stem: str) -> str:
        """Emit code that reads one value; return the expression for it, which is valid after the next flush."""
        value = self._source.name(stem)
        match wire_type:
            case schema.Fixed():
                self._read(value, wire_type.code)
                return value
            case schema.Uuid():
                self._read(value, "16s")
                return f"uuid({value})"
            case schema.String():
                self._sized("h", value, nullable, path, "b[p:stop].tobytes().decode()")
            case schema.Bytes():
                self._sized("i", value, nullable, path, "bytes(b[p:stop])")
            case schema.Records():
                self._sized("i", value, nullable, path, "b[p:stop]")
            case schema.Array():
                self._array(wire_type, value, nullable, path, stem)
            case schema.Struct():
                return self._nested(wire_type, value, nullable, path)
        return value

    def _sized(self, code: str, value: str, nullable: bool, path: str, expression: str) -> None:
        source = self._source
        length = self._length(code, path)
        with self._unless_null(nullable, length, value):
            source.line(f"stop = p + {length}")
            refuse = self._refuse(path, f"length {{{length}}}")
            source.line(f"if {length} < 0 or stop > end: {refuse}")
            source.line(f"{value} = {expression}")
            source.line("p = stop")

    def _array(self, array: schema.Array[Any], value: str, nullable: bool, path: str, stem: str) -> None:
        source = self._source
        count = self._length("i", path)
        least = self._least_size(array.element)
        assert least, f"{path}: a count of elements without bytes has no bound"
        with self._unless_null(nullable, count, value):
            needed = count if least == 1 else f"{count} * {least}"
            refuse = self._refuse(path, f"count {{{count}}}")
            source.line(f"if {count} < 0 or {needed} > end - p: {refuse}")
            self._spend(count, path)
            if isinstance(array.element, schema.Fixed):
                source.line(f"{value} = list(unpack_from(f'>{{{count}}}{array.element.code}', b, p))")
                source.line(f"p += {needed}")
                return
            source.line(f"{value} = []")
            with source.block(f"for _ in range({count})"):
                if self._sliced:
                    source.line("turn -= 1")
                    source.line(f"if turn < 0: yield; turn = {SLICE_ELEMENTS}")
                element = self._value(array.element, False, f"{path}[]", stem)
                self._flush()
                source.line(f"{value}.append({element})")

    def _spend(self, count: str, path: str) -> None:
        """Emit code that subtracts a number of elements from those that are still allowed."""
        if self._sliced:
            self._source.line(f"left -= {count}")
            refuse = self._refuse(path, "more than {elements_max} elements in all")
            self._source.line(f"if left < 0: {refuse}")

    def _nested(self, wire_type: schema.Struct[Any], value: str, nullable: bool, path: str) -> str:
        if not nullable:
            return self._struct(wire_type.struct_class, f"{path}.")
        source = self._source
        marker = source.name("marker")
        self._read(marker, "b")
        self._flush()
        with self._unless_null(True, marker, value):
            refuse = self._refuse(path, f"a marker that is not -1 or 1 but {{{marker}}}")
            source.line(f"if {marker} != 1: {refuse}")
            source.line(f"{value} = {self._struct(wire_type.struct_class, f'{path}.')}")
        return value

    def _length(self, code: str, path: str) -> str:
        """Emit code that reads a length or count. Null is -1, also in the compact form."""
        length = self._source.name("n")
        if self._flexible:
            self._read(length, "B")
            self._flush()
            with self._source.block(f"if {length} > 127"):
                self._source.line(f"{length}, p = continue_varint(b, p, {length})")
                if code == "h":
                    self._source.line(f"if {length} > {STRING_SIZE_BYTES_MAX + 1}: {self._refuse(path, TOO_LONG)}")
            self._source.line(f"{length} -= 1")
        else:
            self._read(length, code)
            self._flush()
        return length

    def _unless_null(self, nullable: bool, length: str, value: str) -> AbstractContextManager[None]:
        if not nullable:
            return nullcontext()
        self._source.line(f"if {length} == -1: {value} = None")
        return self._source.block("else")

    def _refuse(self, path: str, rule: str) -> str:
        return f"raise refuse(p, f'{path}: {rule}, {{end - p}} bytes left')"

    # -- runs of fields with a constant size

    def _read(self, name: str, code: str) -> None:
        self._run.append((name, code))

    def _flush(self) -> None:
        """Emit one unpack for all fields of constant size that were collected."""
        if not self._run:
            return
        names = [name for name, _ in self._run]
        codes = "".join(code for _, code in self._run)
        self._run.clear()
        if codes == "B":
            self._source.line(f"{names[0]} = b[p]")
        else:
            self._source.line(
                f"{', '.join(names)}{',' if len(names) == 1 else ''} = {self._source.unpacker(codes)}(b, p)"
            )
        self._source.line(f"p += {struct.calcsize('>' + codes)}")

    def _least_size(self, wire_type: schema.WireType[Any]) -> int:
        match wire_type:
            case schema.Fixed():
                return wire_type.size_bytes
            case schema.Uuid():
                return 16
            case schema.String():
                return 1 if self._flexible else 2
            case schema.Struct():
                fields = schema.fields_of(wire_type.struct_class)
                untagged = [field for field in fields if field.tag is None and field.exists_in(self._version)]
                return sum(self._least_field_size(field) for field in untagged) + self._flexible
            case _:
                return 1 if self._flexible else 4

    def _least_field_size(self, field: schema.Field) -> int:
        if isinstance(field.type, schema.Struct) and field.nullable_in(self._version):
            return 1
        return self._least_size(field.type)


# Topic ids repeat in every request, and building a UUID takes longer than decoding the rest of the topic.
@lru_cache(maxsize=4096)
def _uuid(raw: bytes) -> UUID:
    return UUID(bytes=raw)


def _refusal(title: str) -> Callable[[int, str | Exception], DecodeError]:
    def refuse(position: int, rule: str | Exception) -> DecodeError:
        if isinstance(rule, UnicodeDecodeError):
            rule = "text that is not UTF-8"
        elif isinstance(rule, Exception):
            rule = "the bytes end inside the message"
        return DecodeError(f"{title}, byte {position}: {rule}")

    return refuse
