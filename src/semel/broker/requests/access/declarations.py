"""Declarations of the rights that an API needs, and the one function that checks them: ``guarded``.

Three things can be declared, and an API may have all of them:

    whole    rights that the whole request needs; if one is missing, the request is refused
    items    rights for each item of a list: items without them are removed from the message, the handler serves the
             others, and a refusal for each removed item is inserted at its place in the response
    answer   a filter for the response, which removes names that the client may not describe

The rights that a handler checks itself are listed in ``checked_by_handler``, for readers of the table and for tests.

The law: a handler never gets an item that its client has no right to, and the response has a result for every item.
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
"""Returns the names of the resources that a message, or an item of it, is about; none for an unknown topic id."""
Refuse: TypeAlias = Callable[[Request, Any, ErrorCode], object]
"""Returns the response that refuses a whole request."""
Check: TypeAlias = Callable[[Rights, ClusterImage, Any, Any], object | None]
"""Returns the refusal of an item of a message, as the response has it; None if the item is allowed."""
Answer: TypeAlias = Callable[[Rights, Any], Generator[None, None, None]]
"""Removes from a response what its client may not describe, in slices."""

SLICE_NAMES: Final = 500
"""How many names are checked in one slice."""


@dataclass(frozen=True, slots=True)
class Need:
    """The right ``right`` on all resources that ``names`` returns.

    The right ``instead`` on the cluster, or the right ``some`` on any resource, is sufficient as well.
    """

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


class CheckedByHandler(NamedTuple):
    """A right that a handler or a filter checks itself, and a text for the reference: what happens without it."""

    right: Right
    without: str


def by_error_code(request: Request, message: Any, code: ErrorCode) -> object:
    """Return the usual refusal: a response with an error code for the whole request."""
    response: object = request.api.response_class(error_code=int(code))
    return response


def nothing_filtered(rights: Rights, response: Any) -> Generator[None, None, None]:
    """A filter that removes nothing, for responses that only have names from the request."""
    yield from ()


@dataclass(frozen=True, slots=True)
class Items:
    """The rights for each item of a list: ``asked`` is its field in the message, ``answered`` that of the results."""

    asked: str
    answered: str
    needs: tuple[Need, ...]
    check: Check

    def take_out(self, rights: Rights, image: ClusterImage, message: Any) -> Generator[None, None, dict[int, object]]:
        """Remove the items that are not allowed from the message.

        Returns their refusals by their indexes in the list.
        """
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
        """Insert the refusals into a response, at the places of their items.

        The order is that of the request if the response has one result for each item. That holds for large requests,
        too: they are cut within items, and their responses are joined.
        """
        results = getattr(response, self.answered)
        for place, refusal in refused.items():
            results.insert(place, refusal)


def each(asked: str, answered: str, *needs: Need, refused: Callable[[Any, ErrorCode], object]) -> Items:
    """Return items that all need the same rights. ``refused`` makes the result of an item without a right."""

    def check(rights: Rights, image: ClusterImage, message: Any, item: Any) -> object | None:
        for need in needs:
            code = need.refusal(rights, image, item)
            if code:
                return refused(item, code)
        return None

    return Items(asked, answered, needs, check)


@dataclass(frozen=True, slots=True)
class Access:
    """The rights that an API needs from the version ``since`` on; ``earlier`` has those of the versions before."""

    whole: tuple[Need, ...] = ()
    refuse: Refuse = by_error_code
    items: Items | None = None
    answer: Answer | None = None
    checked_by_handler: tuple[CheckedByHandler, ...] = ()
    since: int = 0
    earlier: Access | None = None

    def in_version(self, version: int) -> Access:
        return self if version >= self.since or self.earlier is None else self.earlier.in_version(version)


def guarded(node: Node, access: Access, handle: Handle) -> Handle:
    """Return a handler that checks the rights of its API and then calls ``handle``."""

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
    """Check all rights in slices. Returns the response that refuses the whole request, or None.

    With None, the message has only the allowed items, and ``request.amend`` is what is to be done to the response.
    """
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
        return response  # The error is for the whole request, and the response has no names.
    if refused:
        assert access.items is not None
        access.items.put_back(refused, response)
    if access.answer is not None:
        yield from access.answer(rights, response)
    return response


# Names


def name_in_field(field: str) -> Names:
    """Return a function for the name in this field; it returns no name if the field is None."""

    def names(image: ClusterImage, asked: Any) -> Iterable[str]:
        name = getattr(asked, field)
        return () if name is None else (name,)

    return names


def item_name(image: ClusterImage, item: str) -> Iterable[str]:
    """The name of an item that is a name itself."""
    return (item,)


def with_topic_id(image: ClusterImage, topic: Any) -> Iterable[str]:
    """The name of the topic with the item's topic id. No name if there is no such topic, which the handler refuses."""
    known = image.topics_by_id.get(topic.topic_id)
    return () if known is None else (known.name,)


def the_cluster(image: ClusterImage, asked: Any) -> Iterable[str]:
    return (CLUSTER_NAME,)


# Between brokers


def _not_a_broker(request: Request, message: Any, code: ErrorCode) -> object:
    raise KafkaError(code, f"{request.principal} is no broker: it lacks {CLUSTER_ACTION}")


BROKERS_ONLY: Final = Access(whole=(Need(CLUSTER_ACTION, the_cluster),), refuse=_not_a_broker)
"""The access on the listener of brokers.

If an API has no error code for the whole request, the connection is closed.
"""
