"""``semel console``: serves web pages that show a cluster."""

from __future__ import annotations

import argparse
import signal
import sys
from typing import Any, Final

from semel.cli.addresses import listening_failed, parse_address
from semel.cli.exits import Exit, UsageError
from semel.cli.option_values import client_settings
from semel.cli.parsing import Subcommands, add_command, add_connection
from semel.cli.terminal.interruption import SIGNALS, Interrupted
from semel.errors import SemelError

LISTEN: Final = "127.0.0.1:8080"


def add_parser(commands: Subcommands) -> None:
    parser = add_command(
        commands,
        "console",
        "show a cluster in the browser",
        "  semel console\n"
        "  semel console --bootstrap-server localhost:9092 --listen 127.0.0.1:8081\n"
        "  semel console --allow-changes\n"
        "  semel console --schema-registry http://localhost:8081\n\n"
        "It works with Semel and with Apache Kafka, and needs pip install 'semel[console]'. Where the client's\n"
        "settings say SASL and name no user (--command-property security.protocol=SASL_SSL), visitors log in\n"
        "with the broker's own users. docs/console.md shows every page.",
        _console,
    )
    parser.add_argument(
        "--listen", metavar="HOST:PORT", default=LISTEN, help=f"where browsers find it (default: {LISTEN})"
    )
    parser.add_argument(
        "--allow-changes",
        action="store_true",
        help="offer to reset groups and to terminate transactions, and, where --listen is not loopback, to play the "
        "lab's scenes; without it the console only looks",
    )
    parser.add_argument(
        "--schema-registry",
        metavar="URL",
        help="decode records in Confluent's wire format (Avro) with the schemas of this registry",
    )
    parser.add_argument("--ends-with-stdin", action="store_true", help=argparse.SUPPRESS)  # For semel serve --console.
    add_connection(parser)


def _console(options: argparse.Namespace) -> int:
    address = parse_address("--listen", options.listen)
    try:
        from semel.console.app import Rules, make_app
        from semel.console.safety import is_loopback
        from semel.console.server import ConsoleServer, listen_on
    except ImportError as error:
        raise UsageError(f"the console takes more packages ({error.name}): pip install 'semel[console]'") from None
    settings = client_settings(options)
    loopback_only = is_loopback(address.host)
    try:
        app = make_app(settings, Rules(options.allow_changes, loopback_only, options.schema_registry))
    except ValueError as error:
        raise UsageError(f"--schema-registry: {error}") from None
    try:
        listening = listen_on(*address)
    except OSError as error:
        raise SemelError(listening_failed(error, str(address))) from None
    port = listening.getsockname()[1]
    if not loopback_only:
        _warn(address.host, settings, options.allow_changes)
    server = ConsoleServer(app, ready=lambda: _say_ready(address.host, port, settings, options.allow_changes))
    if options.ends_with_stdin:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # They are blocked in the broker's process, its parent.
        server.stop_with_stdin()
    try:
        server.run_on(listening)
    except Interrupted:
        return Exit.OK
    return Exit.OK


def _warn(host: str, settings: dict[str, Any], allow_changes: bool) -> None:
    from semel.console.connections import wants_login

    if wants_login(settings):
        risk = "passwords reach it without TLS: put a proxy with TLS before it"
    else:
        risk = f"whatever this client may {'see and change' if allow_changes else 'see'}, every visitor may"
    print(f"semel: warning: --listen {host} can be reached from other machines, and {risk}", file=sys.stderr)


def _say_ready(host: str, port: int, settings: dict[str, Any], allow_changes: bool) -> None:
    shown = f"[{host}]" if ":" in host else host
    may = "changes are allowed" if allow_changes else "it only looks"
    print(f"semel console on http://{shown}:{port}/, brokers {settings['bootstrap_servers']}, {may}", flush=True)
