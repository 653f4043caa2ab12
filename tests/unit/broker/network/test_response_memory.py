"""How much of the memory of answers one answer may have, and which request is served when some of it is free again."""

from __future__ import annotations

from collections.abc import Callable

from semel.broker.network.response_memory import FULL_ROOM_BYTES, PARTS, ROOM_BYTES_MIN, ResponseMemory

MEGABYTE = 2**20


def resume(name: str, served: list[str], memory: ResponseMemory, size_bytes: int = 0) -> Callable[[], None]:
    """What a request that waits for room does once there is some."""

    def answer() -> None:
        served.append(name)
        memory.add(size_bytes)

    return answer


def test_an_answer_may_have_a_part_of_what_is_left_for_records_and_never_nothing() -> None:
    memory = ResponseMemory(100 * MEGABYTE)
    assert memory.room_bytes(has_read=False) == 75 * MEGABYTE // PARTS

    memory.add(65 * MEGABYTE)
    assert memory.room_bytes(has_read=False) == 10 * MEGABYTE // PARTS

    memory.add(10 * MEGABYTE - 100)
    assert memory.room_bytes(has_read=False) == ROOM_BYTES_MIN

    memory.add(20 * MEGABYTE)
    assert 0 < memory.room_bytes(has_read=False) == FULL_ROOM_BYTES < ROOM_BYTES_MIN


def test_records_that_are_not_read_leave_room_for_other_answers() -> None:
    memory, served = ResponseMemory(100), list[str]()
    memory.add(80)
    assert memory.is_full_of_records(has_read=True)
    assert not memory.is_full
    memory.wait_with_records(resume("fetch", served, memory), has_read=False)
    memory.add(20)
    assert memory.is_full
    memory.wait(resume("metadata", served, memory))

    memory.remove(10)
    assert served == ["metadata"]
    assert memory.is_scarce
    memory.remove(10)
    assert served == ["metadata"]
    memory.remove(10)
    assert served == ["metadata", "fetch"]
    assert not memory.is_scarce


def test_clients_that_have_read_are_served_before_those_that_have_not() -> None:
    memory, served = ResponseMemory(100), list[str]()
    memory.add(100)
    memory.wait_with_records(resume("stranger", served, memory), has_read=False)
    memory.wait_with_records(resume("reader", served, memory, size_bytes=75), has_read=True)

    memory.remove(99)
    assert served == ["reader"]
    memory.remove(75)
    assert served == ["reader", "stranger"]


def test_room_is_not_taken_from_a_request_that_waits_for_it() -> None:
    calls = list[Callable[[], None]]()
    memory, seen = ResponseMemory(100 * MEGABYTE, call_soon=calls.append), list[bool]()
    memory.add(100 * MEGABYTE)
    memory.wait_with_records(lambda: seen.append(memory.is_full_of_records(has_read=False)), has_read=False)
    memory.wait_with_records(lambda: None, has_read=False)

    memory.remove(90 * MEGABYTE)
    assert memory.is_full_of_records(has_read=False)
    assert memory.room_bytes(has_read=False) == FULL_ROOM_BYTES
    assert not memory.is_full_of_records(has_read=True)
    calls.pop()()
    assert seen == [False], "it has its room although another waits behind it"


def test_who_waits_is_served_in_order_and_no_further_than_there_is_room() -> None:
    memory, served = ResponseMemory(100), list[str]()
    memory.add(100)
    assert memory.is_full
    for name in "abc":
        memory.wait(resume(name, served, memory, size_bytes=60))

    memory.remove(50)

    assert served == ["a"]
    assert (memory.used_bytes, memory.is_full, memory.is_scarce) == (110, True, True)
    memory.remove(110)
    assert served == ["a", "b", "c"]
    assert not memory.is_scarce


def test_who_has_left_is_not_served() -> None:
    memory, served = ResponseMemory(100), list[str]()
    memory.add(100)
    gone = resume("gone", served, memory)
    memory.wait(gone)
    memory.forget(gone)

    memory.remove(100)

    assert served == []
