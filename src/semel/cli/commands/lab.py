"""``semel lab``: scenes that show how exactly-once works, on brokers of their own."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from semel.cli.exits import Exit, UsageError
from semel.cli.parsing import Subcommands, add_command
from semel.cli.terminal.output import is_colourful, print_rows

if TYPE_CHECKING:
    from semel.lab.scene import Scene


def add_parser(commands: Subcommands) -> None:
    parser = add_command(
        commands,
        "lab",
        "see how exactly-once works: scenes on a real broker, with real faults",
        "  semel lab --list\n"
        "  semel lab --scene 1 --step\n"
        "  semel lab --scene 1 --without-protection\n"
        "  semel lab --lang zh\n\n"
        "Each scene shows the clients, the requests on the wire and the log side by side, and ends with a verdict\n"
        "that is computed from what happened. Without its protection the duplicate, the loss or the zombie is seen\n"
        "to happen. Brokers are in this process, their data in memory; what is killed is a process of its own;\n"
        "nothing else is touched. docs/lab.md has the scenes as pictures.\n"
        "Exit code 5: a verdict is not as it should be.",
        _run,
    )
    parser.add_argument("--list", action="store_true", help="the scenes, and what each switches off")
    parser.add_argument(
        "--scene", type=int, action="append", default=[], metavar="N", help="only this one; may be repeated"
    )
    parser.add_argument("--step", action="store_true", help="wait for Enter after each step")
    parser.add_argument(
        "--without-protection", action="store_true", help="with the protection off, and see what happens"
    )
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="the language (default: %(default)s)")


def _run(options: argparse.Namespace) -> int:
    from semel.lab.quiet_log import quiet_log
    from semel.lab.scenes import SCENES

    by_number = {scene.number: scene for scene in SCENES}
    for number in options.scene:
        if number not in by_number:
            raise UsageError(f"--scene {number}: there is no such scene; semel lab --list shows them")
    if options.step and not sys.stdin.isatty():
        raise UsageError("--step waits for Enter, and standard input is not a terminal")
    chosen = [by_number[number] for number in options.scene] or list(SCENES)
    if options.list:
        _list(chosen, options.lang)
        return Exit.OK
    with quiet_log():
        is_as_claimed = [_play(scene, options) for scene in chosen]
    return Exit.OK if all(is_as_claimed) else Exit.FOUND


def _list(scenes: list[Scene], language: str) -> None:
    from semel.lab.words import translated

    rows = [
        {
            "scene": scene.number,
            "title": translated(scene.title, language),
            "protection": translated(scene.protection, language),
        }
        for scene in scenes
    ]
    print_rows(rows, ("scene", "title", "protection"), as_json=False)


def _play(scene: Scene, options: argparse.Namespace) -> bool:
    """Play one scene. Returns whether its verdict is as it should be."""
    from semel.lab.playing import play
    from semel.lab.screen import Screen
    from semel.lab.stage import Frame
    from semel.lab.words import translated

    screen = Screen(language=options.lang, colour=is_colourful(sys.stdout))
    protected = not options.without_protection

    def show(frame: Frame) -> None:
        print("\n".join(screen.step(frame)), flush=True)
        if options.step:
            print(f"[{translated('Enter: go on', options.lang)}] ", end="", flush=True)
            sys.stdin.readline()

    print("\n".join(screen.opening(scene, protected=protected)), flush=True)
    played = play(scene, protected=protected, audience=show)
    print("\n".join(screen.verdict(played.verdict, protected=protected)), flush=True)
    return played.is_as_claimed
