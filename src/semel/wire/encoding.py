"""Generates the function that encodes one message class in one version.

The function is flat like the decoder: neighbouring fields of constant size are packed at once, together with the length
that follows them. If the caller takes the message in parts, record batches are not copied: they are parts of their own,
by reference.

A large message is encoded in slices, like in ``decoding``: a generator yields after every ``SLICE_ELEMENTS`` elements.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from typing import Any, Final

from semel.types import Buffer
from semel.wire import schema
from semel.wire.misfit import misfit
from semel.wire.schema import STRING_SIZE_BYTES_MAX
from semel.wire.source import Source
from semel.wire.varint import unsigned_varint

Encoder = Callable[[Any, bytearray, list[Buffer] | None], bytearray]
SlicedEncoder = Callable[[Any, bytearray, list[Buffer]], Generator[None, None, bytearray]]

SLICE_ELEMENTS: Final = 2000

# Below this, copying into the buffer is cheaper than one more element of a vectored write.
RECORDS_BY_REFERENCE_SIZE_BYTES_MIN: Final = 4096
_CUT: Final = b"..."


def compile_encoder(message_class: type[object], version: int) -> Encoder:
    """Return ``encode(message, out, parts) -> out``, which appends the message to ``out``.

    If ``parts`` is a list, ``out`` and each large records field are appended to it in order; the returned buffer is the
    last part, which the caller has to append. If ``parts`` is None, ``out`` holds the whole message and is returned.
    """
    encoder: Encoder = _EncoderSource(message_class, version).compile()
    return encoder


def compile_sliced_encoder(message_class: type[object], version: int) -> SlicedEncoder:
    """Return the same encoder as a generator, which returns the last part."""
    encoder: SlicedEncoder = _EncoderSource(message_class, version, sliced=True).compile()
    return encoder


class _EncoderSource:
    def __init__(self, message_class: type[object], version: int, *, sliced: bool = False) -> None:
        self._message_class = message_class
        self._sliced = sliced
        self._title = f"encode {message_class.__name__} v{version}{' in slices' if sliced else ''}"
        self._version = version
        self._flexible = schema.versions_of(message_class).flexible_in(version)
        self._run: list[tuple[str, str]] = []
        self._source = Source(
            {
                "pack": struct.pack,
                "varint": unsigned_varint,
                "string_length": _string_length,
                "error_text": _error_text,
                "unfit": (AttributeError, TypeError, UnicodeEncodeError, struct.error),
                "misfit": misfit,
            }
        )

    def compile(self) -> Any:
        source = self._source
        with source.block("def encode(m, out, parts)"):
            if self._sliced:
                source.line(f"turn = {SLICE_ELEMENTS}")
                source.line("if False: yield")
            with source.block("try"):
                self._struct(self._message_class, "m")
                self._flush()
            source.line(f"except unfit as error: raise misfit(m, {self._version}) from error")
            source.line("return out")
        return source.function("encode", self._title)

    # -- structs

    def _struct(self, struct_class: type[object], holder: str) -> None:
        tagged: list[schema.Field] = []
        for field in schema.fields_of(struct_class):
            if not field.exists_in(self._version):
                continue
            if field.tag is None:
                self._field(field, f"{holder}.{field.name}")
            else:
                tagged.append(field)
        if self._flexible:
            self._tagged_fields(sorted(tagged, key=lambda field: field.tag or 0), holder)

    def _tagged_fields(self, tagged: list[schema.Field], holder: str) -> None:
        """Emit code for the section at the end of a struct: the count of tagged fields that differ from their default,
        and these fields."""
        if not tagged:
            self._write("x")
            return
        source = self._source
        self._flush()
        values = {field.name: source.name(field.name) for field in tagged}
        for name, value in values.items():
            source.line(f"{value} = {holder}.{name}")
        differs = {field.name: self._differs(values[field.name], field) for field in tagged}
        with source.block(f"if {' or '.join(differs.values())}"):
            source.line(f"out.append({' + '.join(f'({condition})' for condition in differs.values())})")
            for field in tagged:
                with source.block(f"if {differs[field.name]}"):
                    self._tagged_field(field, values[field.name])
        source.line("else: out.append(0)")

    def _tagged_field(self, field: schema.Field, value: str) -> None:
        outer = self._source.name("outer")
        self._source.line(f"{outer} = out; out = bytearray()")
        self._field(field, value)
        self._flush()
        self._source.line(f"{outer} += varint({field.tag}) + varint(len(out)) + out")
        self._source.line(f"out = {outer}")

    def _differs(self, value: str, field: schema.Field) -> str:
        if field.default is None:
            return f"{value} is not None"
        if isinstance(field.default, list):
            return f"len({value}) > 0"
        default = self._source.constant(field.default)
        if isinstance(field.type, schema.Fixed):
            return f"{value} != {default}"
        # Comparing objects is slow, and nearly every message holds the same default object.
        return f"{value} is not {default} and {value} != {default}"

    # -- values

    def _field(self, field: schema.Field, expression: str) -> None:
        if field.absent is not None:
            expression = f"{field.absent} if {expression} is None else {expression}"
        self._value(field.type, field.nullable_in(self._version), expression, field.name)

    def _value(self, wire_type: schema.WireType[Any], nullable: bool, expression: str, stem: str) -> None:
        match wire_type:
            case schema.Fixed():
                self._write(wire_type.code, expression)
            case schema.Uuid():
                self._write("16s", f"{expression}.bytes")
            case schema.String():
                # A message that quotes a long name may itself be longer than a string may be, so it is cut.
                encoded = "error_text({})" if stem.endswith("error_message") else "{}.encode()"
                value = self._sized("h", nullable, expression, stem, empty="b''", convert=encoded)
                self._source.line(f"out += {value}")
            case schema.Bytes():
                value = self._sized("i", nullable, expression, stem, empty="b''")
                self._source.line(f"out += {value}")
            case schema.Records():
                self._records(self._sized("i", nullable, expression, stem, empty="b''"))
            case schema.Array():
                self._elements(wire_type, self._sized("i", nullable, expression, stem, empty="()"), stem)
            case schema.Struct():
                self._nested(wire_type, nullable, expression, stem)

    def _sized(self, code: str, nullable: bool, expression: str, stem: str, *, empty: str, convert: str = "{}") -> str:
        """Emit code that writes the length of a value, after the fields collected before. Return the variable that
        holds the value, which is empty if the value is null."""
        source = self._source
        value, length = source.name(stem), source.name("n")
        measured = f"{length} = len({value}){' + 1' if self._flexible else ''}"
        if nullable:
            source.line(f"{value} = {expression}")
            source.line(f"if {value} is None: {value} = {empty}; {length} = {0 if self._flexible else -1}")
            source.line(f"else: {value} = {convert.format(value)}; {measured}")
        else:
            source.line(f"{value} = {convert.format(expression)}")
            source.line(measured)
        self._length(code, length)
        return value

    def _length(self, code: str, length: str) -> None:
        if not self._flexible:
            self._write(code, length)
            self._flush()
            return
        gathered, self._run = self._run, []
        source = self._source
        source.line(f"if {length} < 128: {self._packed([*gathered, ('B', length)])}")
        before = f"{self._packed(gathered)}; " if gathered else ""
        source.line(f"else: {before}out += {'string_length' if code == 'h' else 'varint'}({length})")

    def _records(self, value: str) -> None:
        source = self._source
        source.line(f"if parts is None or len({value}) < {RECORDS_BY_REFERENCE_SIZE_BYTES_MIN}: out += {value}")
        source.line(f"else: parts.append(out); parts.append({value}); out = bytearray()")

    def _elements(self, array: schema.Array[Any], value: str, stem: str) -> None:
        source = self._source
        if isinstance(array.element, schema.Fixed):
            source.line(f"out += pack(f'>{{len({value})}}{array.element.code}', *{value})")
            return
        element = source.name(stem)
        with source.block(f"for {element} in {value}"):
            if self._sliced:
                source.line("turn -= 1")
                source.line(f"if turn < 0: yield; turn = {SLICE_ELEMENTS}")
            self._value(array.element, False, element, stem)
            self._flush()

    def _nested(self, wire_type: schema.Struct[Any], nullable: bool, expression: str, stem: str) -> None:
        if not nullable:
            self._struct(wire_type.struct_class, expression)
            return
        source = self._source
        self._flush()
        holder = source.name(stem)
        source.line(f"{holder} = {expression}")
        source.line(f"if {holder} is None: out.append(255)")
        with source.block("else"):
            self._write("B", "1")
            self._struct(wire_type.struct_class, holder)
            self._flush()

    # -- runs of fields with a constant size

    def _write(self, code: str, expression: str = "") -> None:
        self._run.append((code, expression))

    def _flush(self) -> None:
        if self._run:
            self._source.line(self._packed(self._run))
            self._run = []

    def _packed(self, run: list[tuple[str, str]]) -> str:
        codes = "".join(code for code, _ in run)
        if codes == "x":
            return "out.append(0)"
        if codes == "B":
            return f"out.append({run[0][1]})"
        arguments = ", ".join(expression for _, expression in run if expression)
        return f"out += {self._source.packer(codes)}({arguments})"


def _error_text(text: str) -> bytes:
    """Return an error message as bytes, cut to the maximum size of a string."""
    encoded = text.encode()
    if len(encoded) <= STRING_SIZE_BYTES_MAX:
        return encoded
    kept = encoded[: STRING_SIZE_BYTES_MAX - len(_CUT)]
    return kept.decode(errors="ignore").encode() + _CUT


def _string_length(size_bytes_plus_one: int) -> bytes:
    if size_bytes_plus_one > STRING_SIZE_BYTES_MAX + 1:
        raise struct.error(f"a string has at most {STRING_SIZE_BYTES_MAX} bytes")
    return unsigned_varint(size_bytes_plus_one)
