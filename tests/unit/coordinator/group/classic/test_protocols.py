"""The election of a protocol, and what it costs: the names are chosen by clients, up to a thousand by each member."""

from __future__ import annotations

from semel.coordinator.group.classic.member import ClassicMember
from semel.coordinator.group.classic.protocols import common_protocols, elected_protocol
from semel.coordinator.group.classic.requests import OfferedProtocol


def member(*names: str) -> ClassicMember:
    protocols = tuple(OfferedProtocol(name, b"") for name in names)
    return ClassicMember("member", None, "client", "/10.0.0.1", 60_000, 10_000, protocols)


class Compared(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    count = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Compared.count += 1
        return str.__eq__(self, other)


def test_common_protocols_are_in_the_order_of_the_first_member() -> None:
    assert common_protocols([member("c", "a", "b", "a"), member("b", "c"), member("x", "c", "b")]) == ["c", "b"]
    assert common_protocols([member("a"), member("b")]) == []
    assert common_protocols([]) == []


def test_the_most_preferred_common_protocol_is_elected() -> None:
    assert elected_protocol([member("a", "b"), member("b", "a"), member("x", "b", "a")]) == "b"


def test_no_name_is_compared_with_all_the_names_of_another_member() -> None:
    names = [f"protocol-{number}" for number in range(1000)]
    Compared.count = 0

    assert len(common_protocols([member(*map(Compared, names)), member(*map(Compared, reversed(names)))])) == 1000

    assert Compared.count < 10_000
