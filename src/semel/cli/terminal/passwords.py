"""Passwords for commands: from a file, from the environment, or asked for on the terminal; never an argument.

Arguments are in the history of the shell, and every user of the machine can read them in the list of processes.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Final

from semel.cli.exits import UsageError
from semel.cli.option_values import file_text

PASSWORD_VARIABLE: Final = "SEMEL_USER_PASSWORD"


def add_password_file(parser: argparse.ArgumentParser) -> None:
    parser.allow_abbrev = False  # Else --password SECRET would mean --password-file SECRET.
    parser.add_argument(
        "--password-file",
        metavar="FILE",
        help=f"its first line is the password (default: ${PASSWORD_VARIABLE}, else it is asked for)",
    )


def new_password(options: argparse.Namespace) -> str:
    """Return the password for a user. Raises ``UsageError``, whose message does not show the password."""
    if options.password_file is not None:
        password, source = file_text("--password-file", options.password_file).split("\n")[0], "--password-file"
        password = password.removesuffix("\r")
    elif (from_environment := os.environ.get(PASSWORD_VARIABLE)) is not None:
        password, source = from_environment, f"${PASSWORD_VARIABLE}"
    else:
        password, source = _asked(), "the answer"
    if not password:
        raise UsageError(f"{source} is empty, and a password is not")
    return password


def _asked() -> str:
    import getpass

    if not sys.stdin.isatty():
        raise UsageError(
            f"there is no terminal to ask for the password on: use --password-file or ${PASSWORD_VARIABLE}"
        )
    password = getpass.getpass("password: ")
    if getpass.getpass("once more: ") != password:
        raise UsageError("the two passwords are not the same; nothing was changed")
    return password
