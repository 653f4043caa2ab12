from __future__ import annotations

import threading

import pytest

from semel.console.answer_cache import AnswerCache
from tools.patience import PATIENCE_S


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_question_is_asked_again_when_its_answer_is_too_old() -> None:
    clock, asked = Clock(), iter(range(10))
    answers = AnswerCache(clock)
    assert [answers.get("q", 2.0, lambda: next(asked)) for _ in range(3)] == [0, 0, 0]
    clock.now_s += 2.5
    assert answers.get("q", 2.0, lambda: next(asked)) == 1
    assert answers.get("other", 2.0, lambda: next(asked)) == 2
    answers.clear()
    assert answers.get("q", 2.0, lambda: next(asked)) == 3


def test_threads_that_want_the_same_wait_for_one_request() -> None:
    answers, asked, may_answer = AnswerCache(), [], threading.Event()

    def ask() -> str:
        asked.append(threading.current_thread().name)
        assert may_answer.wait(PATIENCE_S)
        return "answer"

    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(answers.get("q", 60.0, ask))) for _ in range(8)]
    for thread in threads:
        thread.start()
    may_answer.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert (len(asked), found) == (1, ["answer"] * 8)


def test_an_error_is_not_kept() -> None:
    def fail() -> str:
        raise ValueError("away")

    answers = AnswerCache()
    with pytest.raises(ValueError, match="away"):
        answers.get("q", 60.0, fail)
    assert answers.get("q", 60.0, lambda: "back") == "back"


def test_what_is_known_is_told_without_asking() -> None:
    clock = Clock()
    answers = AnswerCache(clock)
    assert not answers.has_fresh("q", 2.0)
    answers.get("q", 2.0, lambda: 1)
    assert answers.has_fresh("q", 2.0)
    clock.now_s += 2.5
    assert not answers.has_fresh("q", 2.0)


def test_answers_that_are_too_old_or_too_many_are_dropped() -> None:
    clock = Clock()
    answers = AnswerCache(clock, answers_max=3)
    for number in range(5):
        answers.get(number, 60.0, lambda number=number: number)  # type: ignore[misc]
    assert [number for number in range(5) if answers.has_fresh(number, 60.0)] == [2, 3, 4]
    clock.now_s += 61.0
    answers.get("new", 60.0, lambda: "new")
    assert len(answers) == 1, "what is not good any more is not kept"
