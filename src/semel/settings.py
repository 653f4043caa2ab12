"""Settings: what can be configured, under Kafka's names, and how text becomes a value.

A setting is declared once, as the field of a dataclass (``LogConfig``, ``BrokerConfig``): name, type, default, rule and
a description. Parsing, validation, DescribeConfigs and the reference in ``docs/`` all read that declaration.

The law: no setting is ignored silently. An unknown name is an error that names the most similar known one, a value that
breaks its rule is an error that names the value and the rule, and a setting that Kafka has and Semel does not have is
an error that says why.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum, IntEnum
from typing import Any, Protocol, TypeAlias

from semel.errors import SemelError

Value: TypeAlias = bool | int | float | str | tuple[str, ...]


class SettingError(SemelError):
    """An unknown setting, or a value that the setting does not accept."""

    def __init__(self, setting: str, message: str) -> None:
        super().__init__(message)
        self.setting = setting


class SettingType(IntEnum):
    """Kafka's types of settings, numbered as DescribeConfigs numbers them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


class Update(Enum):
    """How a setting of the broker may change: READ_ONLY only by a restart, CLUSTER_WIDE also while the brokers run."""

    READ_ONLY = "read-only"
    CLUSTER_WIDE = "cluster-wide"


class Rule(Protocol):
    """A condition on a value, besides its type. The text of a rule completes the sentence "the value must be ..."."""

    def allows(self, value: Any) -> bool: ...


@dataclass(frozen=True, slots=True)
class AtLeast:
    minimum: float

    def allows(self, value: float) -> bool:
        return value >= self.minimum

    def __str__(self) -> str:
        return f"at least {self.minimum}"


@dataclass(frozen=True, slots=True)
class Between:
    minimum: float
    maximum: float

    def allows(self, value: float) -> bool:
        return self.minimum <= value <= self.maximum

    def __str__(self) -> str:
        return f"between {self.minimum} and {self.maximum}"


@dataclass(frozen=True, slots=True)
class OneOf:
    choices: tuple[str | int, ...]

    def allows(self, value: str | int) -> bool:
        return value in self.choices

    def __str__(self) -> str:
        return f"one of {', '.join(map(str, self.choices))}"


@dataclass(frozen=True, slots=True)
class ListOf:
    choices: tuple[str, ...]

    def allows(self, values: tuple[str, ...]) -> bool:
        return set(values) <= set(self.choices)

    def __str__(self) -> str:
        return f"a list of {', '.join(self.choices)}"


@dataclass(frozen=True, slots=True)
class Synonym:
    """A setting of the broker that is the default of a topic's setting.

    ``factor`` converts its unit into the topic's.
    """

    name: str
    factor: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The declaration of one setting.

    ``default`` is ``None`` if the setting is not set by default; of several synonyms the next one then decides.
    """

    name: str
    type: SettingType
    default: Value | None
    doc: str
    rule: Rule | None = None
    update: Update = Update.READ_ONLY
    synonyms: tuple[Synonym, ...] = ()
    read: Callable[[Any], Any] | None = None
    internal: bool = False

    @property
    def attribute(self) -> str:
        """The name of the attribute that holds the value: the setting's name with underscores."""
        return self.name.replace(".", "_").replace("-", "_")

    @property
    def is_sensitive(self) -> bool:
        return self.type is SettingType.PASSWORD

    def parse(self, text: str) -> Value:
        """Return the value of a text, read as Kafka reads it.

        Raises ``SettingError`` with the text and the broken rule.
        """
        try:
            value = _PARSERS[self.type](text.strip(_JAVA_WHITESPACE))
        except ValueError as error:
            raise self._refuse(text, str(error)) from None
        if self.rule is not None and not self.rule.allows(value):
            raise self._refuse(text, f"the value must be {self.rule}")
        return value

    def text(self, value: Value) -> str:
        """Return a value as text, which ``parse`` turns back into the same value."""
        match value:
            case bool():
                return "true" if value else "false"
            case tuple():
                return ",".join(value)
            case _:
                return str(value)

    def attribute_value(self, value: Value | None) -> Any:
        """Return the value that the attribute holds: ``-1`` becomes ``None``, a name becomes an enum member."""
        return value if value is None or self.read is None else self.read(value)

    def _refuse(self, text: str, reason: str) -> SettingError:
        shown = "[hidden]" if self.is_sensitive else text
        return SettingError(self.name, f"Invalid value {shown} for configuration {self.name}: {reason}")


class Settings(Mapping[str, Setting]):
    """All settings of one kind of resource (``kind``: topic, broker), by name.

    ``absent`` maps settings that Kafka has and Semel refuses to the reason; a name that ends in a dot means all
    settings with that prefix.
    """

    def __init__(self, kind: str, settings: Iterable[Setting], *, absent: Mapping[str, str] | None = None) -> None:
        self.kind = kind
        self.absent = dict(absent or {})
        self._settings = {setting.name: setting for setting in settings}

    def __getitem__(self, name: str) -> Setting:
        return self._settings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    def lookup(self, name: str) -> Setting:
        """Return the setting of that name. Raises ``SettingError`` with the name that was probably meant."""
        setting = self._settings.get(name)
        if setting is None:
            raise SettingError(name, f"Unknown {self.kind} config name: {name}{self._hint(name)}")
        return setting

    def parse(self, texts: Mapping[str, str]) -> dict[str, Value]:
        """Return the parsed values by name. The first unknown name or invalid value raises ``SettingError``."""
        return {name: self.lookup(name).parse(text) for name, text in texts.items()}

    def attributes(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Return the parsed values as keyword arguments of the dataclass that declares these settings."""
        settings = [self.lookup(name) for name in texts]
        return {setting.attribute: setting.attribute_value(setting.parse(texts[setting.name])) for setting in settings}

    def _hint(self, name: str) -> str:
        for absent, reason in self.absent.items():
            if name == absent or (absent.endswith(".") and name.startswith(absent)):
                return f"; {reason}"
        for setting in self._settings.values():
            if any(synonym.name == name for synonym in setting.synonyms):
                return f"; the {self.kind}'s name for it is {setting.name}"
        if len(name) > _HINTED_LENGTH_MAX:
            return ""  # Comparing a name of 32,767 characters would keep the event loop busy for 16 ms.
        import difflib  # Imported here: only an error needs it, and its import would slow every start down.

        public = [setting.name for setting in self._settings.values() if not setting.internal]
        nearest = difflib.get_close_matches(name.strip().lower().replace("_", "."), public, n=1, cutoff=0.5)
        return f"; did you mean {nearest[0]}?" if nearest else ""


def declare(
    name: str,
    setting_type: SettingType,
    default: Value | None,
    doc: str,
    *,
    rule: Rule | None = None,
    update: Update = Update.READ_ONLY,
    synonyms: tuple[Synonym, ...] = (),
    read: Callable[[Any], Any] | None = None,
    internal: bool = False,
) -> Any:
    """Return a dataclass field that declares a setting.

    ``read`` converts the parsed value into the attribute's value.
    """
    setting = Setting(
        name=name,
        type=setting_type,
        default=default,
        doc=doc,
        rule=rule,
        update=update,
        synonyms=synonyms,
        read=read,
        internal=internal,
    )
    return field(
        default=setting.attribute_value(default),
        kw_only=True,
        repr=not setting.is_sensitive,
        metadata={"setting": setting},
    )


def declared_in(dataclass_type: Any) -> list[Setting]:
    """Return the settings that a dataclass declares, in the order of its fields."""
    return [member.metadata["setting"] for member in fields(dataclass_type) if "setting" in member.metadata]


def parse_properties(text: str) -> dict[str, str]:
    """Return the entries of a Java ``.properties`` text. If a key occurs twice, the last value counts, as in Java."""
    entries: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _KEY_AND_VALUE.fullmatch(line)
        assert match is not None, "the pattern takes every line"
        entries[_unescape(match["key"])] = _unescape(match["value"])
    return entries


_HINTED_LENGTH_MAX = 100

# What Java's String.trim removes.
_JAVA_WHITESPACE = "".join(map(chr, range(0x21)))

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def _boolean(text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("the value must be true or false")


def _integer(bits: int, type_name: str) -> Callable[[str], int]:
    limit = 1 << (bits - 1)

    def parse(text: str) -> int:
        # The length bounds the cost: int() of a million digits would stop the loop for a second.
        if _INTEGER.fullmatch(text) and len(text) <= 20 and -limit <= (value := int(text)) < limit:
            return value
        raise ValueError(f"not a number of type {type_name}")

    return parse


def _double(text: str) -> float:
    if _DECIMAL.fullmatch(text):
        return float(text)
    raise ValueError("not a number of type DOUBLE")


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip(_JAVA_WHITESPACE) for part in text.split(",")) if text else ()


_PARSERS: dict[SettingType, Callable[[str], Value]] = {
    SettingType.BOOLEAN: _boolean,
    SettingType.STRING: str,
    SettingType.INT: _integer(32, "INT"),
    SettingType.SHORT: _integer(16, "SHORT"),
    SettingType.LONG: _integer(64, "LONG"),
    SettingType.DOUBLE: _double,
    SettingType.LIST: _list,
    SettingType.PASSWORD: str,
}

# A key ends at the first '=', ':' or blank that no backslash protects; blanks around the separator belong to neither.
_KEY_AND_VALUE = re.compile(r"(?P<key>(?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|\Z)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the lines without comments and blank lines. A line that ends in an odd number of backslashes is joined with
    the next one."""
    joined = ""
    continued = False
    for natural in re.split(r"\r\n|\n|\r", text):
        line = natural.lstrip(" \t\f")
        if not continued and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        continued = backslashes % 2 == 1
        joined += line[:-1] if continued else line
        if not continued:
            yield joined
            joined = ""
    if joined:
        yield joined


def _unescape(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        escaped = match[1]
        return chr(int(escaped[1:], 16)) if len(escaped) == 5 else _ESCAPED.get(escaped, escaped)

    return _ESCAPE.sub(one, text)
