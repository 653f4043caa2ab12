"""Settings: text into values as Kafka reads it, and errors that say what to write instead."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.settings import (
    AtLeast,
    Between,
    ListOf,
    OneOf,
    Setting,
    SettingError,
    Settings,
    SettingType,
    Synonym,
    Value,
    parse_properties,
)
from tests.executed_lines import lines_executed


def setting(setting_type: SettingType, **how: Any) -> Setting:
    return Setting(name="a.setting", type=setting_type, default=None, doc="", **how)


@pytest.mark.parametrize(
    ("setting_type", "text", "value"),
    [
        (SettingType.BOOLEAN, " TRUE ", True),
        (SettingType.BOOLEAN, "False", False),
        (SettingType.INT, "+5", 5),
        (SettingType.INT, " -1\t", -1),
        (SettingType.INT, "2147483647", 2**31 - 1),
        (SettingType.SHORT, "-32768", -(2**15)),
        (SettingType.LONG, "9223372036854775807", 2**63 - 1),
        (SettingType.LONG, "007", 7),
        (SettingType.DOUBLE, "0.5", 0.5),
        (SettingType.DOUBLE, "5", 5.0),
        (SettingType.DOUBLE, "1e-3", 0.001),
        (SettingType.STRING, " a b ", "a b"),
        (SettingType.LIST, "a , b,c", ("a", "b", "c")),
        (SettingType.LIST, "  ", ()),
        (SettingType.LIST, "a,", ("a", "")),
    ],
)
def test_text_is_read_as_kafka_reads_it(setting_type: SettingType, text: str, value: Value) -> None:
    assert setting(setting_type).parse(text) == value


@pytest.mark.parametrize(
    ("setting_type", "text"),
    [
        (SettingType.BOOLEAN, "yes"),
        (SettingType.BOOLEAN, "1"),
        (SettingType.INT, ""),
        (SettingType.INT, "1_000"),
        (SettingType.INT, "٣"),
        (SettingType.INT, "0x10"),
        (SettingType.INT, "1.0"),
        (SettingType.INT, "2147483648"),
        (SettingType.SHORT, "32768"),
        (SettingType.LONG, "-9223372036854775809"),
        (SettingType.DOUBLE, "nan"),
        (SettingType.DOUBLE, "inf"),
        (SettingType.DOUBLE, "1_0.0"),
    ],
)
def test_text_that_is_no_such_value_is_refused(setting_type: SettingType, text: str) -> None:
    with pytest.raises(SettingError):
        setting(setting_type).parse(text)


@pytest.mark.parametrize(
    ("rule", "setting_type", "good", "bad", "said"),
    [
        (AtLeast(1), SettingType.INT, "1", "0", "the value must be at least 1"),
        (Between(0, 1), SettingType.DOUBLE, "1", "1.1", "the value must be between 0 and 1"),
        (OneOf(("a", "b")), SettingType.STRING, "b", "B", "the value must be one of a, b"),
        (OneOf((-1, 1, 2)), SettingType.INT, "-1", "0", "the value must be one of -1, 1, 2"),
        (ListOf(("a", "b")), SettingType.LIST, "b,a,a", "a,c", "the value must be a list of a, b"),
    ],
)
def test_a_broken_rule_is_named_with_the_value_that_broke_it(
    rule: Any, setting_type: SettingType, good: str, bad: str, said: str
) -> None:
    ruled = setting(setting_type, rule=rule)
    ruled.parse(good)
    with pytest.raises(SettingError) as refused:
        ruled.parse(bad)
    assert str(refused.value) == f"Invalid value {bad} for configuration a.setting: {said}"
    assert refused.value.setting == "a.setting"


def test_a_number_of_a_million_digits_is_refused_like_any_other() -> None:
    with pytest.raises(SettingError, match=r"not a number of type LONG$"):
        setting(SettingType.LONG).parse("1" * 1_000_000)


def test_a_secret_is_not_repeated_in_an_error() -> None:
    with pytest.raises(SettingError) as refused:
        setting(SettingType.PASSWORD, rule=OneOf(("x",))).parse("hunter2")
    assert "hunter2" not in str(refused.value)


words = st.text("abcXYZ09._-", min_size=1)


@given(
    st.one_of(
        st.tuples(st.just(SettingType.BOOLEAN), st.booleans()),
        st.tuples(st.just(SettingType.SHORT), st.integers(-(2**15), 2**15 - 1)),
        st.tuples(st.just(SettingType.INT), st.integers(-(2**31), 2**31 - 1)),
        st.tuples(st.just(SettingType.LONG), st.integers(-(2**63), 2**63 - 1)),
        st.tuples(st.just(SettingType.DOUBLE), st.floats(allow_nan=False, allow_infinity=False)),
        st.tuples(st.just(SettingType.STRING), words),
        st.tuples(st.just(SettingType.LIST), st.lists(words).map(tuple)),
    )
)
def test_every_value_survives_the_way_through_text(pair: tuple[SettingType, Value]) -> None:
    setting_type, value = pair
    declared = setting(setting_type)
    assert declared.parse(declared.text(value)) == value


CATALOGUE = Settings(
    "topic",
    [
        Setting(name="retention.ms", type=SettingType.LONG, default=1, doc="", synonyms=(Synonym("log.retention.ms"),)),
        Setting(name="segment.bytes", type=SettingType.INT, default=1, doc=""),
        Setting(name="internal.thing", type=SettingType.INT, default=1, doc="", internal=True),
    ],
    absent={"remote.": "there is no tiered storage", "gone": "it is gone"},
)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("retention.m", "; did you mean retention.ms?"),
        ("Retention_MS", "; did you mean retention.ms?"),
        ("segments.byte", "; did you mean segment.bytes?"),
        ("log.retention.ms", "; the topic's name for it is retention.ms"),
        ("remote.storage.enable", "; there is no tiered storage"),
        ("gone", "; it is gone"),
        ("internal.thin", ""),
        ("zzz", ""),
    ],
)
def test_an_unknown_name_is_answered_with_the_right_one(name: str, hint: str) -> None:
    with pytest.raises(SettingError) as refused:
        CATALOGUE.lookup(name)
    assert str(refused.value) == f"Unknown topic config name: {name}{hint}"


def test_the_cost_of_an_unknown_name_does_not_grow_with_its_length() -> None:
    def look(name: str) -> None:
        with pytest.raises(SettingError):
            CATALOGUE.lookup(name)

    assert lines_executed(lambda: look("retention.m"), within="difflib") > 0
    assert lines_executed(lambda: look("x" * 32_767), within="difflib") == 0


PROPERTIES = """
# a comment
   ! another
a=1
b : 2
c 3
  d   =   four and more \t
e=one \\
    line
f=path\\\\with\\:colon
g\\ h=key with a blank
i
j=
k=\\u00e9\\tx
a=last one wins
l=x#no comment
m=ends in backslash\\\\
n==x
"""


def test_properties_are_read_as_java_reads_them() -> None:
    assert parse_properties(PROPERTIES) == {
        "a": "last one wins",
        "b": "2",
        "c": "3",
        "d": "four and more \t",
        "e": "one line",
        "f": "path\\with:colon",
        "g h": "key with a blank",
        "i": "",
        "j": "",
        "k": "é\tx",
        "l": "x#no comment",
        "m": "ends in backslash\\",
        "n": "=x",
    }


def test_a_properties_text_may_end_in_a_continued_line() -> None:
    assert parse_properties("a=1\\") == {"a": "1"}
    assert parse_properties("a=1\\\r\n  2\r\nb=3") == {"a": "12", "b": "3"}


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=20)))
def test_properties_survive_being_written_and_read(entries: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        return "".join(f"\\u{ord(char):04x}" if ord(char) < 0x10000 else char for char in text)

    text = "\n".join(f"{escaped(key)}={escaped(value)}" for key, value in entries.items())
    assert parse_properties(text) == entries
