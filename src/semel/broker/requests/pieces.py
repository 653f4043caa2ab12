"""Cuts a large request into pieces: each piece is served by itself, and the responses are joined.

This is correct for requests with independent elements, which are nearly all: each partition, group or resource has its
own result and its own error code. The handler of the API needs no code for it: it is called with messages that a client
could have sent, and with a ``Piece`` instead of the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from semel.broker.waiting.delayed_operation import HasClient

if TYPE_CHECKING:
    from semel.broker.network.answer_cache import AnswerCache
    from semel.broker.network.request import Amend, Request


ID_CHARACTERS: Final = 256
"""A group id or transactional id of so many characters counts as one more element. Its hash takes some 25 us, and is
computed several times; an id may have 32 KB."""


class Lists(NamedTuple):
    """The nested lists with the elements of a request, and with their results: field names, the outermost first.

    ``id_of`` returns the group id or transactional id of an element of the outermost list, if it has one.
    """

    asked: tuple[str, ...]
    answered: tuple[str, ...]
    id_of: Callable[[Any], str] | None = None

    def weight_of_ids(self, message: Any) -> int:
        """Return as how many elements the ids in a message count, besides themselves."""
        elements = () if self.id_of is None else getattr(message, self.asked[0]) or ()
        return sum(map(self.weight_of_id, elements))

    def weight_of_id(self, element: Any) -> int:
        return 0 if self.id_of is None else len(self.id_of(element)) // ID_CHARACTERS


class Part(NamedTuple):
    """One part of a request, or of its response: ``message`` is of the class of the whole.

    ``continued_depth`` is the number of nested lists, from the outermost, in which the first element is the rest of
    the last element of the part before.
    """

    message: Any
    continued_depth: int


def cut(message: Any, lists: Lists, size: int) -> Iterator[Part]:
    """Yield parts of this message, with at most ``size`` elements each."""
    name, *inner = lists.asked
    for elements, continued_depth in _cut(getattr(message, name) or [], tuple(inner), size, lists.weight_of_id):
        yield Part(replace(message, **{name: elements}), continued_depth)


def join(responses: list[Part], path: tuple[str, ...]) -> Any:
    """Return one response, made of the responses to all parts. What is refused in one part has only its error."""
    (first, _), *others = responses
    for response, continued_depth in others:
        _join(getattr(first, path[0]), getattr(response, path[0]), path[1:], continued_depth)
    return first


class Piece:
    """Has the interface of ``Request``, for a handler that serves a piece of it.

    ``answered`` gets the piece's response.
    """

    def __init__(self, request: Request, loop: asyncio.AbstractEventLoop) -> None:
        self._request = request
        self.answered: asyncio.Future[Any] = loop.create_future()
        self.operation: HasClient | None = None
        self.parts: list[Any] | None = None
        self.api = request.api
        self.connection = request.connection
        self.listener = request.listener
        self.version = request.version
        self.correlation_id = request.correlation_id
        self.client_id = request.client_id
        self.peer_host = request.peer_host
        self.principal = request.principal
        self.is_from_broker = request.is_from_broker
        self.amend: Amend | None = None
        """Changes the response of this piece by the client's rights and writes the audit log, before it is joined."""
        self.limits = request.limits

    def as_request(self) -> Request:
        return cast("Request", self)

    def room_bytes(self) -> int:
        return self._request.room_bytes()

    @property
    def response_elements(self) -> int:
        return self._request.response_elements

    @response_elements.setter
    def response_elements(self, elements: int) -> None:
        self._request.response_elements = elements

    @property
    def lacks_room(self) -> bool:
        return self._request.lacks_room

    def wait_for_room(self, resume: Callable[[], None]) -> None:
        self._request.wait_for_room(resume)

    def forget_room(self, resume: Callable[[], None]) -> None:
        self._request.forget_room(resume)

    def throttle(self, throttle_ms: int) -> None:
        self._request.throttle(throttle_ms)

    def answer(self, response: object) -> None:
        self.parts, self.operation = [], None
        if not self.answered.done():
            self.answered.set_result(response)

    def answer_delayed(self, make_response: Callable[[], object]) -> None:
        try:
            self.answer(make_response())
        except Exception as error:
            if not self.answered.done():
                self.answered.set_exception(error)

    def answer_nothing(self) -> None:
        self.answer(None)

    def give_up(self) -> None:
        self.parts = []
        self._request.give_up()
        self.answered.cancel()

    def refuse(self) -> None:
        self.parts = []
        self._request.refuse()
        self.answered.cancel()

    def delay(self, operation: HasClient | None, *, hold: bool) -> None:
        self.operation = operation

    def hold_until_answered(self, operation: HasClient | None = None) -> None:
        if self.parts is None:
            self.operation = operation

    def abandoned(self) -> None:
        """The client has disconnected: stop the operation that waits for this piece, and its task.

        But not if the response is amended, which may mean that it is written into the audit log: the changes of this
        piece are made although its client has left. No further piece is served after it.
        """
        if self.amend is not None:
            return
        operation, self.operation = self.operation, None
        if operation is not None:
            operation.abandoned()
        self.answered.cancel()

    def cacheable(self, cache: AnswerCache) -> None:
        """Do nothing: the response to a piece is not cached."""


def _cut(
    elements: list[Any], path: tuple[str, ...], size: int, weight: Callable[[Any], int]
) -> Iterator[tuple[list[Any], int]]:
    gathered: list[Any] = []
    room = size
    for element in elements:
        count = _count(element, path)
        if count > size:
            if gathered:
                yield gathered, 0
                gathered, room = [], size
            is_first = True
            for part, continued_depth in _cut(getattr(element, path[0]), path[1:], size, _weightless):
                yield [replace(element, **{path[0]: part})], 0 if is_first else continued_depth + 1
                is_first = False
            continue
        count += weight(element)
        if gathered and count > room:
            yield gathered, 0
            gathered, room = [], size
        gathered.append(element)
        room -= count
    if gathered:
        yield gathered, 0


def _weightless(element: Any) -> int:
    return 0


def _count(element: Any, path: tuple[str, ...]) -> int:
    if not path:
        return 1
    inner = getattr(element, path[0])
    if not inner:
        return 1
    return len(inner) if len(path) == 1 else sum(_count(each, path[1:]) for each in inner)


def _join(into: list[Any], more: list[Any], path: tuple[str, ...], continued_depth: int) -> None:
    if continued_depth and into and more:
        if getattr(more[0], "error_code", 0):
            into[-1] = more[0]  # The error is for the whole element, such as a group whose coordinator has moved.
        elif not getattr(into[-1], "error_code", 0):
            _join(getattr(into[-1], path[0]), getattr(more[0], path[0]), path[1:], continued_depth - 1)
        more = more[1:]
    into += more
