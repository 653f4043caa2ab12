"""A browser without a window: one session with a console, as plain HTTP."""

from __future__ import annotations

import http.client
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from typing import Any
from urllib.parse import urlencode

from semel.blocking import Admin
from semel.console.app import Rules, make_app
from semel.console.server import ConsoleServer, listen_on
from tools.patience import PATIENCE_S

LOOKING = Rules()


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: str

    @property
    def text(self) -> str:
        """What a reader sees, roughly: without tags."""
        return " ".join(unescape(re.sub(r"<[^>]*>", " ", self.body)).split())

    @property
    def token(self) -> str:
        found = re.search(r'name="token" value="([^"]*)"', self.body)
        assert found is not None, self.body
        return found[1]


class Visitor:
    def __init__(self, port: int) -> None:
        self.port = port
        self.cookie: str | None = None

    def get(self, path: str, **parameters: object) -> Answer:
        return self.ask("GET", f"{path}?{urlencode(parameters)}" if parameters else path)

    def post(self, path: str, form: dict[str, str], **headers: str) -> Answer:
        given = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        return self.ask("POST", path, urlencode(form), given)

    def ask(self, method: str, path: str, body: str | None = None, headers: dict[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, body, {**self._cookies(), **(headers or {})})
            response = connection.getresponse()
            answer = Answer(
                response.status,
                {name.lower(): value for name, value in response.getheaders()},
                response.read().decode(),
            )
        finally:
            connection.close()
        if "set-cookie" in answer.headers:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    @contextmanager
    def events(self, path: str) -> Iterator[Iterator[str]]:
        """What the page's event stream brings, event by event."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request("GET", path, headers={**self._cookies(), "Accept": "text/event-stream"})
            response = connection.getresponse()
            assert response.status == 200, response.read()
            assert response.headers["content-type"].startswith("text/event-stream")
            yield _events(response)
        finally:
            connection.close()

    def _cookies(self) -> dict[str, str]:
        return {} if self.cookie is None else {"Cookie": self.cookie}


def _events(response: http.client.HTTPResponse) -> Iterator[str]:
    lines: list[str] = []
    while line := response.readline():
        text = line.decode().rstrip("\n")
        if text.startswith("data: "):
            lines.append(text.removeprefix("data: "))
        elif not text and lines:
            yield "\n".join(lines)
            lines = []


@contextmanager
def running_console(
    settings: dict[str, Any], rules: Rules = LOOKING, make_admin: Callable[..., Admin] = Admin
) -> Iterator[int]:
    """The port of a console in a thread of this process."""
    listening = listen_on("127.0.0.1", 0)
    is_ready = threading.Event()
    server = ConsoleServer(make_app(settings, rules, make_admin), is_ready.set)
    thread = threading.Thread(target=server.run_on, args=(listening,), name="console")
    thread.start()
    try:
        assert is_ready.wait(PATIENCE_S), "the console does not start"
        yield listening.getsockname()[1]
    finally:
        server.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the console does not stop"
