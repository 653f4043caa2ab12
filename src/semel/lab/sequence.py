"""The sequence diagram of a scene that was played, as the text that ``tools/sequence_diagram.py`` draws."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from semel.lab.log_view import LogView
from semel.lab.playing import Played
from semel.lab.screen import client_name, wire_text
from semel.lab.stage import Frame
from semel.testing.tracing.wire_trace import WireEvent, WireEventKind

BROKER: Final = "Broker"


def diagram(played: Played, *, steps: Collection[int] | None = None) -> str:
    """The text of the diagram. Participants are the clients that have sent requests and the brokers that received them.

    ``steps`` are the numbers of the steps to show; ``None``: all.
    """
    frames = [frame for frame in played.frames if steps is None or frame.number in steps]
    events = [event for frame in frames for event in frame.wire]
    clients = dict.fromkeys(client_name(event) for event in events)
    brokers = sorted({_server(event) for event in events} | {name for name in clients if name.startswith("broker ")})
    names = [*(name for name in clients if name not in brokers), *(brokers or [BROKER])]
    without = "" if played.protected else ", without its protection"
    lines = [f"title: {played.scene.title}{without}", "", f"participants: {', '.join(names)}"]
    logs: dict[str, LogView] = {}
    leader = names[-1]
    for frame in frames:
        leader = next((_server(event) for event in frame.wire if event.api == "Produce"), leader)
        lines += ["", f"== {frame.number}. {_first_sentence(frame)}", *_messages(frame)]
        lines += [f"{leader}: {text}" for text in _appended(frame, logs)]
    return "\n".join(lines) + "\n"


def _first_sentence(frame: Frame) -> str:
    return frame.text.of("en").partition(". ")[0].rstrip(".")


def _messages(frame: Frame) -> Iterator[str]:
    """One line for each message. A request that is lost has one line, with an arrow of its own."""
    lost = {
        (event.connection, event.correlation_id) for event in frame.wire if event.kind is WireEventKind.REQUEST_LOST
    }
    for event in frame.wire:
        name, server, text = client_name(event), _server(event), wire_text(event)
        match event.kind:
            case WireEventKind.REQUEST:
                arrow = "->x" if (event.connection, event.correlation_id) in lost else "->"
                yield f"{name} {arrow} {server}: {text}"
            case WireEventKind.ANSWER:
                yield f"{server} --> {name}: {text}"
            case WireEventKind.ANSWER_LOST:
                yield f"{server} --x {name}: {event.api}"
            case WireEventKind.HELD | WireEventKind.RELEASED:
                yield f"{server}: {text}"
            case WireEventKind.REQUEST_LOST:
                pass


def _appended(frame: Frame, logs: dict[str, LogView]) -> Iterator[str]:
    """A line for each log that has changed since the step before: its new records, its last stable offset."""
    for log in frame.logs:
        before = logs.get(log.name)
        known = 0 if before is None else len(before.entries)
        new = [f"{entry.offset} {entry.value}" for entry in log.entries[known:]]
        logs[log.name] = log
        if new:
            yield f"the log of {log.name} has {', '.join(new)}; last stable offset {log.last_stable_offset}"
        elif before is not None and before.last_stable_offset != log.last_stable_offset:
            yield f"the last stable offset of {log.name} is {log.last_stable_offset}"


def _server(event: WireEvent) -> str:
    return event.server or BROKER
