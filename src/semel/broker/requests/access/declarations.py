"""How an API declares what it asks for, and the one place that asks: ``guarded``.

Three things can be declared, and an API may have all of them:

    whole    rights that the request needs; without one of them all of it is refused
    items    a right for each item of a list: the message loses the items that lack it, the handler serves the rest, and
             the answer gets a refused item for each, in its place
    answer   what the answer names: it loses what the client may not describe

What a handler decides itself is told in ``inside``: for those who read the table, and for the tests.

The law: a handler never sees what its client may not ask for, and an answer has something to say of every item.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import partial
from types import CoroutineType
from typing import Any, Final, NamedTuple, TypeAlias

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.errors import ErrorCode, KafkaError
from semel.metadata.image import ClusterImage
from semel.security.acls import CLUSTER_NAME
from semel.security.rights import CLUSTER_ACTION, Right, Rights

Handle: TypeAlias = Callable[[Request, Any], object]
Names: TypeAlias = Callable[[ClusterImage, Any], Iterable[str]]
"""The names of the resources that a message, or an item of it, is about. None of what does not exist by an id."""
Refuse: TypeAlias = Callable[[Request, Any, ErrorCode], object]
"""The answer that refuses a whole request."""
Check: TypeAlias = Callable[[Rights, ClusterImage, Any, Any], object | None]
"""The refusal of an item of a message, as it is in the answer; None if it is allowed."""
Answer: TypeAlias = Callable[[Rights, Any], Generator[None, None, None]]
"""Takes out of an answer what its client may not see, with a pause after every slice."""

SLICE_NAMES: Final = 500
"""How many names are looked at before the others get their turn."""


@dataclass(frozen=True, slots=True)
class Need:
    """A right with all resources that are named. Where it is missing, a right with the cluster ``instead`` will do, or
    one with ``some`` resource, whatever its name."""

    right: Right
    names: Names
    instead: Right | None = None
    some: Right | None = None

    def refusal(self, rights: Rights, image: ClusterImage, asked: Any) -> ErrorCode:
        for name in self.names(image, asked):
            if not self.is_met(rights, name):
                rights.refuse(self.right, name)
                return self.right.refusal
        return ErrorCode.NONE

    def refusal_in_slices(self, rights: Rights, image: ClusterImage, asked: Any) -> Generator[None, None, ErrorCode]:
        for number, name in enumerate(self.names(image, asked)):
            if number and number % SLICE_NAMES == 0:
                yield
            if not self.is_met(rights, name):
                rights.refuse(self.right, name)
                return self.right.refusal
        return ErrorCode.NONE

    def is_met(self, rights: Rights, name: str) -> bool:
        return (
            rights.may(self.right, name)
            or (self.instead is not None and rights.may(self.instead))
            or (self.some is not None and rights.may_with_some(self.some))
        )


class Decided(NamedTuple):
    """A right that a handler or a filter asks for, and what happens without it."""

    right: Right
    without: str


def by_error_code(request: Request, message: Any, code: ErrorCode) -> object:
    """The usual refusal: a code for the whole request."""
    response: object = request.api.response_class(error_code=int(code))
    return response


def nothing_filtered(rights: Rights, response: Any) -> Generator[None, None, None]:
    """An answer that names nothing but what was asked for."""
    yield from ()


@dataclass(frozen=True, slots=True)
class Items:
    """The list ``asked`` of a message, whose results are the list ``answered`` of the answer."""

    asked: str
    answered: str
    needs: tuple[Need, ...]
    check: Check

    def take_out(self, rights: Rights, image: ClusterImage, message: Any) -> Generator[None, None, dict[int, object]]:
        """The refusals of the items that are not allowed, by their places. The message has the others."""
        asked = getattr(message, self.asked) or ()
        refused: dict[int, object] = {}
        for place, item in enumerate(asked):
            if place and place % SLICE_NAMES == 0:
                yield
            refusal = self.check(rights, image, message, item)
            if refusal is not None:
                refused[place] = refusal
        if refused:
            setattr(message, self.asked, [item for place, item in enumerate(asked) if place not in refused])
        return refused

    def put_back(self, refused: dict[int, object], response: Any) -> None:
        """Give an answer the refusals. Large requests are cut within items, and their answers joined: so the order is
        that of the request, where the answer has one result for each item."""
        results = getattr(response, self.answered)
        for place, refusal in refused.items():
            results.insert(place, refusal)


def each(asked: str, answered: str, *needs: Need, refused: Callable[[Any, ErrorCode], object]) -> Items:
    """Items that all need the same rights. ``refused`` makes the result of one that lacks one."""

    def check(rights: Rights, image: ClusterImage, message: Any, item: Any) -> object | None:
        for need in needs:
            code = need.refusal(rights, image, item)
            if code:
                return refused(item, code)
        return None

    return Items(asked, answered, needs, check)


@dataclass(frozen=True, slots=True)
class Access:
    """What an API asks for, ``since`` a version; up to the one before, what is ``earlier``."""

    whole: tuple[Need, ...] = ()
    refuse: Refuse = by_error_code
    items: Items | None = None
    answer: Answer | None = None
    inside: tuple[Decided, ...] = ()
    since: int = 0
    earlier: Access | None = None

    def in_version(self, version: int) -> Access:
        return self if version >= self.since or self.earlier is None else self.earlier.in_version(version)


def guarded(node: Node, access: Access, handle: Handle) -> Handle:
    """A handler, behind what its API asks for."""

    def serve(request: Request, message: Any) -> object:
        rights = node.rights(request)
        assert rights is not None, "handlers are guarded where an authorizer is configured"
        steps = _checked(access.in_version(request.version), rights, node.image, request, message)
        try:
            next(steps)
        except StopIteration as end:
            return handle(request, message) if end.value is None else end.value
        return serve_many(steps, request, message)

    async def serve_many(steps: Generator[None, None, object], request: Request, message: Any) -> object:
        refusal = await node.turns.run(steps, elements=SLICE_NAMES)
        result = handle(request, message) if refusal is None else refusal
        return await result if type(result) is CoroutineType else result

    return serve


def _checked(
    access: Access, rights: Rights, image: ClusterImage, request: Request, message: Any
) -> Generator[None, None, object | None]:
    """The answer that refuses the whole request, or None: then the message has what is allowed, and the request what is
    to be done to its answer."""
    for need in access.whole:
        code = yield from need.refusal_in_slices(rights, image, message)
        if code:
            return access.refuse(request, message, code)
    refused: dict[int, object] = {}
    if access.items is not None:
        refused = yield from access.items.take_out(rights, image, message)
    if refused or access.answer is not None:
        request.amend = partial(_amended, access, rights, refused)
    return None


def _amended(access: Access, rights: Rights, refused: dict[int, object], response: Any) -> Generator[None, None, Any]:
    if getattr(response, "error_code", ErrorCode.NONE):
        return response  # It is true of the whole request, and names nothing.
    if refused:
        assert access.items is not None
        access.items.put_back(refused, response)
    if access.answer is not None:
        yield from access.answer(rights, response)
    return response


# Names


def named(field: str) -> Names:
    """The one in this field; none if the field is empty of a name."""

    def names(image: ClusterImage, asked: Any) -> Iterable[str]:
        name = getattr(asked, field)
        return () if name is None else (name,)

    return names


def itself(image: ClusterImage, item: str) -> Iterable[str]:
    """Of an item that is a name."""
    return (item,)


def with_topic_id(image: ClusterImage, topic: Any) -> Iterable[str]:
    """That of the topic with this id. None if there is no such topic: then the handler says so."""
    known = image.topics_by_id.get(topic.topic_id)
    return () if known is None else (known.name,)


def the_cluster(image: ClusterImage, asked: Any) -> Iterable[str]:
    return (CLUSTER_NAME,)


# Between brokers


def _not_a_broker(request: Request, message: Any, code: ErrorCode) -> object:
    raise KafkaError(code, f"{request.principal} is no broker: it lacks {CLUSTER_ACTION}")


BROKERS_ONLY: Final = Access(whole=(Need(CLUSTER_ACTION, the_cluster),), refuse=_not_a_broker)
"""What comes to the listener of brokers. Where an API has no code for the whole request, the connection is closed."""
