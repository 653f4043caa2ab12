"""A command without a broker says so soon, with the address, and waits for one that is being started."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from semel.cli.exits import Exit
from semel.cli.main import main
from semel.cli.reachability import await_broker
from semel.client.config.common import addresses
from semel.errors import TimedOut
from semel.testing import Broker
from semel.types import Address
from tools.patience import PATIENCE_S


@contextmanager
def listener(answer: bytes | None, *, port: int = 0) -> Iterator[Address]:
    """Something that answers so. ``None``: it never answers."""
    with socket.create_server(("127.0.0.1", port)) as server:

        def serve() -> None:
            kept = []
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                if answer is None:
                    kept.append(connection)
                    continue
                with connection:
                    connection.recv(100)
                    connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield Address("127.0.0.1", server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("command", [["topic", "list"], ["consume", "orders"], ["group", "describe", "billing"]])
def test_no_broker_is_said_with_the_address(capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    code = main([*command, "--bootstrap-server", "127.0.0.1:1", "--command-property", "default.api.timeout.ms=300"])

    assert code == Exit.UNREACHABLE
    assert "no broker answers at 127.0.0.1:1 (Connection refused)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(b"HTTP/1.1 400 Bad Request\r\n\r\n", "is no broker"), (b"", "it closes the connection"), (None, "timed out")],
)
def test_what_listens_and_is_no_broker_does_not_pass_for_one(answer: bytes | None, reason: str) -> None:
    with listener(answer) as address, pytest.raises(TimedOut, match=f"{address.port} .*{reason}"):
        await_broker([address], has_tls=False, within_s=0.3)


def test_one_of_several_is_enough() -> None:
    with Broker() as broker, listener(None) as silent:
        await_broker([silent, *addresses([broker.bootstrap_servers])], has_tls=False, within_s=PATIENCE_S)


def test_a_broker_that_is_being_started_is_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    answers = threading.Thread(
        target=await_broker, args=[[Address("127.0.0.1", port)]], kwargs={"has_tls": False, "within_s": PATIENCE_S}
    )
    answers.start()
    with listener(struct.pack(">iih", 6, 1, 0), port=port):
        answers.join(PATIENCE_S)
        assert not answers.is_alive()
