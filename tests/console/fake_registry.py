"""A schema registry that answers ``GET /schemas/ids/ID`` as Confluent's does, and counts what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class FakeRegistry:
    def __init__(self, port: int, answers: dict[int, tuple[int, bytes]]) -> None:
        self.url = f"http://127.0.0.1:{port}/base"
        self.asked: list[str] = []
        self.takes: Callable[[], None] = lambda: None
        """Called before each answer."""
        self._answers = answers

    def has(self, schema_id: int, schema: Any, **more: Any) -> None:
        self.answers(schema_id, json.dumps({"schema": json.dumps(schema), **more}).encode())

    def answers(self, schema_id: int, body: bytes, status: int = 200) -> None:
        self._answers[schema_id] = (status, body)


@contextmanager
def running_registry() -> Iterator[FakeRegistry]:
    answers: dict[int, tuple[int, bytes]] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.asked.append(self.path)
            registry.takes()
            status, body = answers.get(int(self.path.rpartition("/")[2]), (404, b'{"error_code": 40403}'))
            self.send_response(status)
            if status == 302:
                self.send_header("Location", body.decode())
                body = b""
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        registry = FakeRegistry(server.server_address[1], answers)
        thread = threading.Thread(target=server.serve_forever, name="registry")
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()
