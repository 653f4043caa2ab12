"""The generator of docs/cli.md, from the declarations of the commands."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from semel.cli.exits import Exit
from semel.cli.main import make_parser

_INTRODUCTION = """\
# The command line

<!-- Made by `make docs` from the commands themselves. A test keeps it true. -->

`semel` works against Semel and any Kafka broker. Tables are for people; `--json` is for scripts; colour only on a
terminal. `--bootstrap-server` may be left out where `SEMEL_BOOTSTRAP_SERVERS` is set. Settings of the client (TLS,
SASL, timeouts) go into a file with Kafka's names, which `--command-config` or `SEMEL_COMMAND_CONFIG` names; one with a
password in it should be readable by its owner alone (`chmod 600`). `--command-property` sets one of them, and is no
place for passwords: other users see them in the list of processes. `semel completion bash` teaches a shell all of this.

| exit code | means |
|---|---|
"""

_MEANINGS = {
    Exit.OK: "it went well",
    Exit.FAILED: "it was tried, and something went wrong; standard error says what, in one sentence",
    Exit.USAGE: "wrong usage; nothing was done",
    Exit.NOT_FOUND: "the topic, group, transactional id or setting that was named is not there",
    Exit.UNREACHABLE: "no broker answered in time",
    Exit.FOUND: "`semel txn find-hanging`, `semel log verify`, `semel prove` or `semel demo` has found something, or "
    "`semel cluster status` that brokers or leaders are away",
}

# Options of every command, which are described once, in the introduction.
_SHARED = frozenset({"--help", "--bootstrap-server", "--command-config", "--command-property"})


def reference() -> str:
    codes = "".join(f"| {int(code)} | {_MEANINGS[code]} |\n" for code in Exit)
    return _INTRODUCTION + codes + "".join(_sections(make_parser(), ("semel",)))


def _sections(parser: argparse.ArgumentParser, path: tuple[str, ...]) -> Iterator[str]:
    families = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if len(path) > 1:
        yield f"\n{'#' * len(path)} {' '.join(path)}\n\n{parser.description}\n"
    if len(path) > 1 and not families:
        yield f"{_examples(parser)}{_arguments(parser)}"
    for family in families:
        for name, child in family.choices.items():
            yield from _sections(child, (*path, name))


def _examples(parser: argparse.ArgumentParser) -> str:
    """Return the examples of a command as a shell session, followed by the prose of its help."""
    session, prose = [], []
    for line in (parser.epilog or "").removeprefix("examples:\n").strip("\n").splitlines():
        if line.startswith("      "):
            session.append(f"# {line.strip()}")
        elif line.startswith("  "):
            session.append(f"$ {line.strip()}")
        else:
            prose.append(line)
    words = "\n".join(prose).strip()
    return "\n```console\n" + "\n".join(session) + "\n```\n" + (f"\n{words}\n" if words else "")


def _arguments(parser: argparse.ArgumentParser) -> str:
    rows = []
    for action in parser._actions:
        names = [name for name in action.option_strings if name.startswith("--")]
        if _SHARED.intersection(names):
            continue
        shown = names[0] if names else str(action.metavar or action.dest)
        if names and action.nargs != 0:
            shown += f" {action.metavar or (action.dest.upper() if not action.choices else '|'.join(action.choices))}"
        default = str(action.default) if action.default not in (None, argparse.SUPPRESS) else ""
        text = re.sub(r"%\(default\)s", default, action.help or "")
        rows.append(f"| `{shown.replace('|', '/')}` | {text} |\n")
    return f"\n| option | |\n|---|---|\n{''.join(rows)}" if rows else ""


if __name__ == "__main__":
    print(reference(), end="")
