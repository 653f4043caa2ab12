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


def test_an_answer_may_have_a_part_of_what_is_left_and_never_nothing() -> None:
    memory = ResponseMemory(100 * MEGABYTE)
    assert memory.room_bytes() == 100 * MEGABYTE // PARTS

    memory.add(90 * MEGABYTE)
    assert memory.room_bytes() == 10 * MEGABYTE // PARTS

    memory.add(10 * MEGABYTE - 100)
    assert memory.room_bytes() == ROOM_BYTES_MIN

    memory.add(20 * MEGABYTE)
    assert 0 < memory.room_bytes() == FULL_ROOM_BYTES < ROOM_BYTES_MIN


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
