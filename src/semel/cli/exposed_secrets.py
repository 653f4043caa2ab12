"""Warnings about passwords in client settings that other users of the machine can read. Each is one line, and does not
show the password."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable
from typing import Final

# These settings are of the type password in Kafka, but certificates are public.
_PUBLIC: Final = frozenset({"ssl.truststore.certificates", "ssl.keystore.certificate.chain"})


def warn_of_arguments(option: str, names: Iterable[str], alternatives: str) -> None:
    """Warn about passwords among settings that were given as arguments: these are in the list of processes and in the
    shell's history."""
    found = _secrets(names)
    if found:
        _warn(f"{option} {found} can be read in the list of processes and in the shell's history: use {alternatives}")


def warn_of_file(option: str, path: str, names: Iterable[str]) -> None:
    """Warn about passwords among settings in a file that every user may read."""
    found = _secrets(names)
    if found and os.name == "posix" and os.stat(path).st_mode & stat.S_IROTH:
        _warn(f"{option} {path} has {found} and can be read by every user: chmod 600 {path}")


def _secrets(names: Iterable[str]) -> str:
    from semel.client.security.config import PASSWORD_SETTINGS

    return ", ".join(name for name in names if name in PASSWORD_SETTINGS and name not in _PUBLIC)


def _warn(sentence: str) -> None:
    print(f"semel: warning: {sentence}", file=sys.stderr)
