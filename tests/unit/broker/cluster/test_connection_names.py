"""The newest connection of a broker and purpose is served, and no other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.broker.cluster.connection_names import ConnectionName, NewestConnections
from semel.errors import DecodeError

names = st.builds(
    ConnectionName,
    st.integers(0, 3),
    st.sampled_from(["markers", "admission"]),
    st.integers(0, 3),
    st.integers(1, 3),
)


class OpenConnection:
    def __init__(self) -> None:
        self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


@given(names)
def test_a_name_survives_being_written_and_read(name: ConnectionName) -> None:
    assert ConnectionName.parse(str(name)) == name


@pytest.mark.parametrize("client_id", [None, "", "canary", "semel-broker/1/markers/2", "semel-broker/x/markers/2/3"])
def test_what_is_no_name_is_refused(client_id: str | None) -> None:
    with pytest.raises(DecodeError, match="names the connection of a broker"):
        NewestConnections().check(client_id, OpenConnection())


@given(st.lists(names, max_size=20))
def test_an_older_connection_is_never_served_after_a_newer_one(arriving: list[ConnectionName]) -> None:
    newest = NewestConnections()
    connections: dict[ConnectionName, OpenConnection] = {}
    highest: dict[tuple[int, str], tuple[int, int]] = {}
    for name in arriving:
        connection = connections.setdefault(name, OpenConnection())
        key, age = (name.node_id, name.purpose), (name.broker_epoch, name.number)
        if age < highest.get(key, age):
            with pytest.raises(DecodeError, match="older"):
                newest.check(str(name), connection)
        else:
            newest.check(str(name), connection)
            highest[key] = age
            assert not connection.is_aborted
        older = [
            other
            for other in connections
            if (other.node_id, other.purpose) == key and (other.broker_epoch, other.number) < highest[key]
        ]
        served = [other for other in older if other in arriving[: arriving.index(name)]]
        assert all(connections[other].is_aborted or _was_refused(other, arriving, name) for other in served)


def _was_refused(name: ConnectionName, arriving: list[ConnectionName], last: ConnectionName) -> bool:
    """Whether it came only after a newer one, and was never served."""
    first = arriving.index(name)
    return any(
        (other.node_id, other.purpose) == (name.node_id, name.purpose)
        and (other.broker_epoch, other.number) > (name.broker_epoch, name.number)
        for other in arriving[:first]
    )


def test_a_second_connection_with_the_same_name_is_refused() -> None:
    """A name is used once: the second one is a forgery, or a bug."""
    newest, name = NewestConnections(), str(ConnectionName(1, "markers", 5, 1))
    first = OpenConnection()
    newest.check(name, first)
    with pytest.raises(DecodeError, match="older"):
        newest.check(name, OpenConnection())
    newest.check(name, first)
