"""A page as a value, and the environment of the templates that make HTML of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from semel.console import charts, texts
from semel.console.connections import Connection
from semel.console.scene_runs import SceneRuns
from semel.console.schema_registry import SchemaRegistry

FOLDER: Final = Path(__file__).parent
LIVE_EVERY_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Visit:
    """One request for a page: the visitor's connection and session, and the query. ``form`` is empty for a GET."""

    connection: Connection
    query: Mapping[str, str]
    may_change: bool
    now_ms: int
    session: str
    scenes: SceneRuns
    may_play: bool
    """Whether this visitor may start scenes of the lab."""
    schemas: SchemaRegistry | None
    form: Mapping[str, str] = field(default_factory=dict)

    def number(self, name: str) -> int | None:
        """Return a number of the query; ``None`` if it is absent. Raises ``InvalidRequest`` if it is no number."""
        text = self.query.get(name, "").strip()
        if not text:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 20):
            raise InvalidRequest(f"{name} {text!r}: it is a number from 0 on")
        return int(text)

    def name(self, parameter: str) -> str:
        """Return a parameter of the query. Raises ``InvalidRequest`` if it is absent."""
        if parameter not in self.query:
            raise InvalidRequest(f"this address lacks its {parameter}")
        return self.query[parameter]


@dataclass(frozen=True, slots=True)
class Page:
    """A page as a value. ``place`` is its entry in the menu.

    ``live_every_s`` is how often it is rendered again; ``None`` for a page that does not change.
    """

    template: str
    title: str
    place: str
    values: Mapping[str, Any] = field(default_factory=dict)
    live_every_s: float | None = LIVE_EVERY_S
    status: int = 200
    go_to: str | None = None
    """The address to which the browser is redirected after a change."""


View: TypeAlias = Callable[[Visit], Page]


class InvalidRequest(Exception):
    """Something in an address or a form is invalid. The message is one sentence."""


def link(path: str, /, **parameters: object) -> str:
    """Return an address of the console. Names are put into its query, which can contain any text."""
    given = {name: value for name, value in parameters.items() if value not in (None, "")}
    return f"/{path}?{urlencode(given)}" if given else f"/{path}"


def make_environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(link=link, sparkline=charts.sparkline, offsets_bar=charts.offsets_bar, lane=charts.lane)
    environment.globals.update(command=texts.command, option=texts.option)
    environment.filters.update(
        number=texts.number,
        span=texts.span,
        size=texts.size,
        clock=texts.clock,
        moment=texts.moment,
        tone=texts.tone,
        meaning=texts.meaning,
    )
    return environment
