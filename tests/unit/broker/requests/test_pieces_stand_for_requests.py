"""A piece of a large request stands for the request: it has all that handlers ask of one."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from semel.broker.network.request import Request
from semel.broker.requests import handlers
from semel.broker.requests.pieces import Piece


def asked_of_requests() -> set[str]:
    names: set[str] = set()
    for path in Path(handlers.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Attribute(value=ast.Name(id="request"), attr=name, ctx=ast.Load()):
                    names.add(name)
    return names


def test_a_piece_has_what_handlers_ask_of_a_request() -> None:
    loop = asyncio.new_event_loop()
    given: dict[str, Any] = dict.fromkeys(
        (
            "api",
            "version",
            "correlation_id",
            "client_id",
            "connection",
            "listener",
            "peer_host",
            "principal",
            "limits",
            "is_from_broker",
            "response_elements",
            "lacks_room",
        )
    )
    piece = Piece(cast(Request, SimpleNamespace(**given)), loop)
    loop.close()
    asked = asked_of_requests()
    assert {"version", "is_from_broker"} <= asked
    assert {name for name in asked if not hasattr(piece, name)} == set()


def test_a_piece_has_all_of_a_request_but_what_is_the_dispatcher_s() -> None:
    """Operations that wait for something ask more of a request than handlers do."""
    by_the_dispatcher = {"answer_encoded", "cache_key", "in_slices", "is_abandoned", "refuse_as", "send"}
    public = {name for name in dir(Request) if not name.startswith("_")}
    given = {name for name in dir(Piece) if not name.startswith("_")} | set(Piece.__init__.__code__.co_names)
    assert public - by_the_dispatcher <= given
