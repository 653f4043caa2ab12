"""``semel completion``: a shell script that completes commands and options. It is made from the parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final

from semel.cli.exits import Exit
from semel.cli.parsing import Subcommands, add_command

_PLACES: Final = {
    "bash": "Put this line into ~/.bashrc: source <(semel completion bash)",
    "zsh": "Put this line into ~/.zshrc, after compinit: source <(semel completion zsh)",
    "fish": "Put this into a file: semel completion fish > ~/.config/fish/completions/semel.fish",
}
SHELLS: Final = tuple(_PLACES)


def add_parser(commands: Subcommands) -> None:
    parser = add_command(
        commands,
        "completion",
        "print a completion script for a shell",
        "  source <(semel completion bash)        # in ~/.bashrc\n"
        "  source <(semel completion zsh)         # in ~/.zshrc, after compinit\n"
        "  semel completion fish > ~/.config/fish/completions/semel.fish",
        _run,
    )
    parser.add_argument("shell", choices=SHELLS)


def _run(options: argparse.Namespace) -> int:
    from semel.cli.main import make_parser

    print(script(options.shell, make_parser()))
    return Exit.OK


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """Return the completion script. Its first line says where to put it."""
    words = dict(_words(parser))
    return f"# {_PLACES[shell]}\n{_fish(words) if shell == 'fish' else _bash(words, zsh=shell == 'zsh')}"


def _words(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield, for each chain of commands, the commands and options that may follow it."""
    found: list[str] = []
    for action in parser._actions:
        found += [option for option in action.option_strings if option.startswith("--")]
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                found.append(name)
                yield from _words(child, (*path, name))
    yield path, found


def _bash(words: dict[tuple[str, ...], list[str]], *, zsh: bool) -> str:
    cases = "\n".join(f'    "{" ".join(path)}") words="{" ".join(found)}" ;;' for path, found in sorted(words.items()))
    prelude = "autoload -U +X bashcompinit && bashcompinit\n" if zsh else ""
    return f"""{prelude}_semel() {{
  local path="" word words
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$word" in -*) break ;; *) path="${{path:+$path }}$word" ;; esac
  done
  # What is typed after the last command (a topic, a group) is not a part of the path.
  while :; do
    case "$path" in
{cases.replace("    ", "      ")}
      *) if [ -z "$path" ]; then return; fi
         case "$path" in *" "*) path="${{path% *}}" ;; *) path="" ;; esac
         continue ;;
    esac
    break
  done
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _semel semel"""


def _fish(words: dict[tuple[str, ...], list[str]]) -> str:
    lines = ["complete -c semel -f"]
    for path, found in sorted(words.items()):
        commands = " ".join(word for word in found if not word.startswith("--"))
        seen = " and ".join(f"__fish_seen_subcommand_from {name}" for name in path)
        if commands and not path:
            lines.append(f'complete -c semel -n __fish_use_subcommand -a "{commands}"')
        elif commands:
            lines.append(
                f'complete -c semel -n "{seen}; and not __fish_seen_subcommand_from {commands}" -a "{commands}"'
            )
        condition = f'-n "{seen.replace(" and ", "; and ")}" ' if path else ""
        lines += [f"complete -c semel {condition}-l {word[2:]}" for word in found if word.startswith("--")]
    return "\n".join(lines)
