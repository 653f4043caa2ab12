"""Clients have the names that ``docs/client.md`` lists and no others, in both forms; every call has an example."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from semel import Admin, Consumer, Producer, blocking

PAGE = (Path(__file__).parents[3] / "docs" / "client.md").read_text()
HEADING = "## All names\n"
CLASSES = [Producer, Consumer, Admin]
ADMIN_PARTS = ["topics", "configs", "partitions", "groups", "cluster", "transactions", "acls", "quotas", "users"]


@contextmanager
def made(kind: Any) -> Iterator[Any]:
    """A client that has nothing to connect to. What it is given in ``__init__`` counts, too."""
    client = kind(bootstrap_servers="localhost:1")
    yield client
    if kind.__module__.startswith("semel.blocking"):
        client.close()


def public_names(client: object) -> set[str]:
    return {name for name in dir(client) if not name.startswith("_")}


def listed_names(class_name: str, page: str = PAGE) -> tuple[set[str], set[str]]:
    """The names of a class in the table: those for asyncio and threads, and those for asyncio only."""
    table = page.split(HEADING, 1)[1].split("\n## ", 1)[0]
    (row,) = [line for line in table.splitlines() if line.startswith(f"| `{class_name}` |")]
    _, _, both, asynchronous, _ = row.split("|")
    return names_in(both), names_in(asynchronous)


def names_in(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", cell))


@pytest.mark.parametrize("kind", CLASSES)
def test_an_asyncio_client_has_the_names_that_are_listed_and_no_others(kind: type) -> None:
    both, asynchronous = listed_names(kind.__name__)
    with made(kind) as client:
        assert public_names(client) == both | asynchronous


@pytest.mark.parametrize("kind", CLASSES)
def test_a_blocking_client_has_the_names_that_are_listed_and_no_others(kind: type) -> None:
    both, _ = listed_names(kind.__name__)
    with made(getattr(blocking, kind.__name__)) as client:
        assert public_names(client) == both


@pytest.mark.parametrize("part", ADMIN_PARTS)
@pytest.mark.parametrize("kind", [Admin, blocking.Admin])
def test_a_part_of_an_admin_client_has_the_calls_that_are_listed_and_no_others(kind: type, part: str) -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `admin.{part}` |")]
    with made(kind) as client:
        assert public_names(getattr(client, part)) == names_in(row)


@pytest.mark.parametrize("kind", CLASSES)
def test_every_name_is_described_outside_of_the_list(kind: type) -> None:
    before, rest = PAGE.split(HEADING, 1)
    text = before + rest.split("\n## ", 1)[1]
    code = "\n".join(map("".join, re.findall(r"```python\n(.*?)```|`([^`\n]+)`", text, re.DOTALL)))
    for name in sorted(set.union(*listed_names(kind.__name__))):
        assert re.search(rf"\b{name}\b", code), name


def test_a_name_too_many_or_too_few_is_found() -> None:
    """The comparison can fail: it reads the table, and an instance's own attributes."""
    both, _ = listed_names("Consumer", PAGE.replace("`rewind`, ", ""))
    with made(blocking.Consumer) as consumer:
        assert public_names(consumer) - both == {"rewind"}
        consumer.group_session = object()
        assert public_names(consumer) - listed_names("Consumer")[0] == {"group_session"}


def calls(client: type) -> dict[str, Any]:
    return {name: call for name, call in vars(client).items() if inspect.isfunction(call) and not name.startswith("_")}


@pytest.mark.parametrize("client", [Producer, Consumer, blocking.Producer, blocking.Consumer], ids=repr)
def test_every_call_has_an_example(client: type) -> None:
    for name, call in calls(client).items():
        assert f".{name}(" in (call.__doc__ or ""), f"{client.__module__}: {name}"
        assert client.__module__.startswith("semel.blocking") <= ("await" not in call.__doc__), name
