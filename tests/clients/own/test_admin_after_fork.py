"""A child has the memory of a client and nothing else of it: use there raises, and says so."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator

import pytest

from semel import Admin, blocking
from semel.errors import StateError
from semel.testing import Broker

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def said_in_child(use: Callable[[], object]) -> str:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            use()
            said = "nothing"
        except StateError as error:
            said = str(error)
        except BaseException as error:
            said = repr(error)
        os.write(writer, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        return pipe.read()


def test_the_blocking_admin_client(broker: Broker) -> None:
    with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.topics.list()
        said = said_in_child(admin.topics.list)
        assert said.startswith("this admin client was made before the process was forked")
        assert said.endswith("make one in every process that uses one")
        assert admin.topics.list() == {}


def test_the_asyncio_admin_client(broker: Broker) -> None:
    with asyncio.Runner() as parent:
        admin = Admin(bootstrap_servers=broker.bootstrap_servers)
        parent.run(admin.topics.list())
        said = said_in_child(lambda: asyncio.run(admin.topics.list()))
        assert said.startswith("this client was made before the process was forked")
        assert parent.run(admin.topics.list()) == {}
        parent.run(admin.close())
