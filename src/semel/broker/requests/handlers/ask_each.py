"""Serves a request about several groups or transactions: asks the coordinator of each, and sends one response."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias, TypeVar

from semel.broker.network.request import Request

Asked = TypeVar("Asked")
Result = TypeVar("Result")
Respond: TypeAlias = Callable[[Result], None]


def ask_each(
    request: Request,
    asked: Sequence[Asked],
    ask: Callable[[Asked, Respond[Result]], None],
    make_response: Callable[[list[Result]], object],
) -> None:
    """Call ``ask`` for each item, and send the response when all results are there, in the order of the request."""
    results: dict[int, Result] = {}

    def answer_if_complete() -> None:
        if len(results) == len(asked):
            request.answer_delayed(lambda: make_response([results[number] for number in range(len(asked))]))

    def respond(number: int, result: Result) -> None:
        results[number] = result
        answer_if_complete()

    for number, one in enumerate(asked):
        ask(one, partial(respond, number))
    if not asked:
        answer_if_complete()
    request.hold_until_answered()
