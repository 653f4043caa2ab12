"""The console as an ASGI application: its routes, and the handling of every request.

A view asks brokers and blocks, so it runs in a thread. For an error of a broker a page is shown that says what to do.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from semel import __version__
from semel.blocking import Admin
from semel.console import safety
from semel.console.connections import Connections
from semel.console.error_page import error_page
from semel.console.live import Streams
from semel.console.pages import FOLDER, InvalidRequest, Page, View, Visit, link, make_environment
from semel.console.scene_runs import SceneRuns
from semel.console.schema_registry import SchemaRegistry
from semel.console.views import (
    access,
    cluster,
    group_reset,
    groups,
    lab,
    overview,
    pipelines,
    producers,
    settings,
    topic,
    topics,
    transaction,
    transactions,
)
from semel.errors import ErrorCode, KafkaError, SemelError

PAGES: Final[Mapping[str, View]] = {
    "/": overview.overview,
    "/topics": topics.topics,
    "/topic": topic.topic,
    "/producers": producers.producers,
    "/groups": groups.groups,
    "/group": groups.group,
    "/group/reset": group_reset.preview,
    "/transactions": transactions.transactions,
    "/transaction": transaction.transaction,
    "/pipelines": pipelines.pipelines,
    "/pipeline": pipelines.pipeline,
    "/settings": settings.settings,
    "/access": access.access,
    "/cluster": cluster.cluster,
    "/lab": lab.scenes,
    "/scene": lab.scene,
}
CHANGES: Final[Mapping[str, View]] = {
    "/group/reset": group_reset.reset,
    "/transaction": transaction.terminate,
}
"""The POST requests that change the cluster; allowed only with ``--allow-changes``."""
PLAYS: Final[Mapping[str, View]] = {"/scene": lab.play}
"""The POST requests that change nothing in the cluster: they start a process on the console's machine."""

_EVENT_STREAM: Final = "text/event-stream"
# How often a page is rendered in an open event stream when it is not live any more.
_CALM_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings of a console that its pages depend on.

    With ``loopback_only`` it listens on loopback and accepts requests for loopback host names only.
    ``schema_registry`` is a URL.
    """

    allow_changes: bool = False
    loopback_only: bool = True
    schema_registry: str | None = None

    @property
    def may_play(self) -> bool:
        """Whether visitors may start scenes. On loopback they are users of this machine, who may start processes."""
        return self.loopback_only or self.allow_changes


@dataclass(frozen=True, slots=True)
class _Rule:
    """Whether the console's settings allow a form, and the text of the refusal if they do not."""

    allows: Callable[[Rules], bool]
    refusal: str


_MAY_CHANGE: Final = _Rule(lambda rules: rules.allow_changes, "this console only looks: start it with --allow-changes")
_MAY_PLAY: Final = _Rule(
    lambda rules: rules.may_play, "this console can be reached from other machines: start it with --allow-changes"
)


def make_app(
    settings: Mapping[str, Any], rules: Rules = Rules(), make_admin: Callable[..., Admin] = Admin
) -> Starlette:
    """Return the application. ``settings`` are the keyword arguments of ``make_admin``.

    ``state.streams`` are its event streams, which its server ends. ``state.close()`` ends scenes and connections.
    """
    console = _Console(settings, rules, make_admin)
    routes = [
        *(Route(path, console.page(view), methods=["GET"]) for path, view in PAGES.items()),
        *(Route(path, console.posted(view, _MAY_CHANGE), methods=["POST"]) for path, view in CHANGES.items()),
        *(Route(path, console.posted(view, _MAY_PLAY), methods=["POST"]) for path, view in PLAYS.items()),
        Route("/login", console.login_form, methods=["GET"]),
        Route("/login", console.log_in, methods=["POST"]),
        Route("/logout", console.log_out, methods=["POST"]),
        Route("/health", lambda request: PlainTextResponse("ok\n"), methods=["GET"]),
        Mount("/static", StaticFiles(directory=FOLDER / "static")),
    ]
    app = Starlette(routes=routes, exception_handlers={404: console.not_found})
    app.state.streams = console.streams
    app.state.close = console.close
    app.add_middleware(_Guard, rules=rules)
    return app


class _Console:
    def __init__(self, settings: Mapping[str, Any], rules: Rules, make_admin: Callable[..., Admin]) -> None:
        self.connections = Connections(settings, make_admin)
        self.streams = Streams()
        self.scenes = SceneRuns()
        self._schemas = None if rules.schema_registry is None else SchemaRegistry(rules.schema_registry)
        self._rules = rules
        self._tokens = safety.Tokens()
        self._templates = make_environment()

    def close(self) -> None:
        self.scenes.close()
        self.connections.close()

    def page(self, view: View) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            session = self._tokens.session(request.cookies)
            if self.connections.with_login and (session is None or self.connections.of(session) is None):
                if _EVENT_STREAM in request.headers.get("accept", ""):
                    return PlainTextResponse("log in first\n", HTTPStatus.UNAUTHORIZED)
                return RedirectResponse(link("login", next=_own_path(request)), HTTPStatus.SEE_OTHER)
            fresh = None if session is not None else self._tokens.new_session()
            session = session or fresh or ""
            if _EVENT_STREAM in request.headers.get("accept", ""):
                return await self._stream(request, session, view)
            page = await run_in_threadpool(self._seen, session, view, dict(request.query_params), {})
            return self._html(page, session, fresh, request)

        return answer

    def posted(self, view: View, rule: _Rule) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            if not rule.allows(self._rules):
                return _refused(rule.refusal)
            session, form, refusal = await self._form(request)
            if refusal is not None or session is None:
                return refusal or _refused("log in first")
            if self.connections.of(session) is None:
                return _refused("log in first")
            page = await run_in_threadpool(self._seen, session, view, dict(request.query_params), form)
            if page.go_to is not None:
                return RedirectResponse(page.go_to, HTTPStatus.SEE_OTHER)
            return self._html(page, session, None, request)

        return answer

    async def login_form(self, request: Request) -> Response:
        if not self.connections.with_login:
            return RedirectResponse("/", HTTPStatus.SEE_OTHER)
        fresh = self._tokens.new_session()
        page = _login_page(request.query_params.get("next", "/"), None)
        return self._html(page, fresh, fresh, request)

    async def log_in(self, request: Request) -> Response:
        session, form, refusal = await self._form(request)
        if refusal is not None or session is None:
            return refusal or _refused("cookies are needed to log in")
        target = form.get("next", "/")
        fresh = self._tokens.new_session()  # A new session, so that one known before the login cannot be used.
        try:
            await run_in_threadpool(self.connections.log_in, fresh, form.get("user", ""), form.get("password", ""))
        except SemelError as error:
            if isinstance(error, KafkaError) and error.code is ErrorCode.SASL_AUTHENTICATION_FAILED:
                said = "the broker does not take this user and password"
            else:
                said = str(error)
            return self._html(_login_page(target, said), session, None, request)
        except ValueError as error:
            return self._html(_login_page(target, str(error)), session, None, request)
        # Never redirect to another site.
        is_own = target.startswith("/") and not target.startswith(("//", "/\\"))
        response = RedirectResponse(target if is_own else "/", HTTPStatus.SEE_OTHER)
        _set_cookie(response, fresh, request)
        return response

    async def log_out(self, request: Request) -> Response:
        session, _, refusal = await self._form(request)
        if refusal is not None or session is None:
            return refusal or _refused("there is no session")
        await run_in_threadpool(self.connections.log_out, session)
        response = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
        response.delete_cookie(safety.COOKIE)
        return response

    async def not_found(self, request: Request, error: Exception) -> Response:
        page = Page("error.html", "Not found", "", _nowhere(request.url.path), None, HTTPStatus.NOT_FOUND)
        return self._html(page, self._tokens.session(request.cookies) or "", None, request)

    def _seen(self, session: str, view: View, query: Mapping[str, str], form: Mapping[str, str]) -> Page:
        connection = self.connections.of(session)
        if connection is None:
            return _login_page("/", None)
        rules, now_ms = self._rules, int(time.time() * 1000)
        visit = Visit(
            connection,
            query,
            rules.allow_changes,
            now_ms,
            session,
            self.scenes,
            rules.may_play,
            self._schemas,
            form,
        )
        try:
            return view(visit)
        except (SemelError, InvalidRequest) as error:
            return error_page(error, connection.servers)

    async def _stream(self, request: Request, session: str, view: View) -> Response:
        if self.streams.is_full:
            return PlainTextResponse("too many pages are open\n", HTTPStatus.SERVICE_UNAVAILABLE)
        query = dict(request.query_params)

        async def render() -> tuple[str, float]:
            page = await run_in_threadpool(self._seen, session, view, query, {})
            return self._rendered(page, session, "fragment.html"), page.live_every_s or _CALM_S

        page = await run_in_threadpool(self._seen, session, view, query, {})
        if page.live_every_s is None and page.status == HTTPStatus.OK:
            return Response(status_code=HTTPStatus.NO_CONTENT)  # After it an EventSource does not reconnect.
        return StreamingResponse(self.streams.events(render), media_type=_EVENT_STREAM)

    def _html(self, page: Page, session: str, fresh: str | None, request: Request) -> Response:
        response = HTMLResponse(self._rendered(page, session, "page.html"), page.status)
        if fresh is not None:
            _set_cookie(response, fresh, request)
        return response

    def _rendered(self, page: Page, session: str, layout: str) -> str:
        connection = self.connections.of(session) if session else None
        return self._templates.get_template(page.template).render(
            **page.values,
            page=page,
            layout=layout,
            token=self._tokens.token(session),
            servers=self.connections.servers,
            user=None if connection is None else connection.user,
            allow_changes=self._rules.allow_changes,
            version=__version__,
        )

    async def _form(self, request: Request) -> tuple[str | None, dict[str, str], Response | None]:
        """Return the session and the fields of a form; or a refusal if the form is not from the console's pages."""
        session = self._tokens.session(request.cookies)
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > safety.BODY_BYTES_MAX:
                return None, {}, PlainTextResponse("too much\n", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        form = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
        if session is None or not self._tokens.is_token(session, form.get("token", "")):
            return None, {}, _refused("this form is from another session: load the page again")
        if not safety.is_own_request(request.headers):
            return None, {}, _refused("this form was sent from another site")
        return session, form, None


class _Guard:
    """Middleware that adds the security headers to every response, and refuses foreign host names."""

    def __init__(self, app: Any, rules: Rules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        host = safety.host_of(headers.get(b"host", b"").decode("latin-1"))
        if self._rules.loopback_only and not safety.is_loopback(host):
            refusal = PlainTextResponse(f"this console listens on this machine only, and is not {host!r}\n", 421)
            await refusal(scope, receive, send)
            return

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                added = [(name.lower().encode(), value.encode()) for name, value in safety.HEADERS.items()]
                if not scope["path"].startswith("/static/"):
                    added += [(b"cache-control", b"no-store"), (b"vary", b"Accept")]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        await self._app(scope, receive, guarded)


def _login_page(target: str, said: str | None) -> Page:
    return Page("login.html", "Log in", "", {"target": target, "said": said}, None)


def _nowhere(path: str) -> dict[str, Any]:
    return {
        "said": f"There is no page {path}.",
        "advice": ["The menu has all pages; / searches in lists."],
        "line_to_try": None,
    }


def _own_path(request: Request) -> str:
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path


def _refused(sentence: str) -> Response:
    return PlainTextResponse(f"{sentence}\n", HTTPStatus.FORBIDDEN)


def _set_cookie(response: Response, session: str, request: Request) -> None:
    response.set_cookie(
        safety.COOKIE, session, httponly=True, samesite="strict", secure=request.url.scheme == "https", path="/"
    )
