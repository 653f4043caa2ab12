"""``semel trace``: a proxy that prints the requests and responses that pass through it."""

from __future__ import annotations

import argparse
import json
import sys
import threading
from typing import TYPE_CHECKING, Final

from semel.cli.addresses import check_free, listening_failed, parse_address
from semel.cli.exits import Exit, UsageError
from semel.cli.option_values import broker_tls
from semel.cli.parsing import Subcommands, add_client_settings, add_command
from semel.cli.terminal.output import is_colourful, say
from semel.errors import SemelError
from semel.inspection.times import time_text

if TYPE_CHECKING:
    import ssl

    from semel.testing.tracing.wire_trace import WireEvent

_RED, _DIM, _PLAIN = "\033[31m", "\033[2m", "\033[0m"
_QUIET: Final = frozenset({"ApiVersions", "Metadata", "Heartbeat", "Fetch", "ListOffsets"})


def add_parser(commands: Subcommands) -> None:
    parser = add_command(
        commands,
        "trace",
        "stand between clients and brokers, and print what they say to each other",
        "  semel trace --listen 127.0.0.1:9099 --to 127.0.0.1:9092\n"
        "  semel trace --to kafka.example.org:9092 --only Produce --only EndTxn\n"
        "  semel trace --to kafka.example.org:9093 --command-config client.properties --certificate proxy.pem\n"
        "  semel trace --json > trace.jsonl\n\n"
        "Clients connect to --listen. Brokers that answers name are replaced by ports of the proxy, so clients stay\n"
        "on it. A line has the time, the connection and its client id, > for a request and < for an answer, the API\n"
        "and its version, the fields that matter, error codes, and how long the answer took. Records are counted,\n"
        "their content is not shown.\n\n"
        "TLS ends at the proxy. To brokers it speaks TLS if security.protocol in --command-config says so, with the\n"
        "ssl settings there, also its own client certificate. Clients connect without TLS (SASL_PLAINTEXT for\n"
        "SASL_SSL), or with it if there is a --certificate, which they must trust. SASL passes through: passwords are\n"
        "the clients' own, and are not shown; without TLS they can be read on the way from client to proxy.",
        _run,
    )
    parser.add_argument(
        "--listen", default="127.0.0.1:9099", metavar="HOST:PORT", help="where clients connect (default: %(default)s)"
    )
    parser.add_argument(
        "--to", default="127.0.0.1:9092", metavar="HOST:PORT", help="a broker of the cluster (default: %(default)s)"
    )
    add_client_settings(parser)
    parser.add_argument(
        "--certificate", metavar="FILE", help="a certificate chain and its key, in PEM: clients connect with TLS"
    )
    parser.add_argument("--only", action="append", default=[], metavar="API", help="only these; may be repeated")
    parser.add_argument(
        "--quiet", action="store_true", help=f"not what clients do by themselves: {', '.join(sorted(_QUIET))}"
    )
    parser.add_argument("--json", action="store_true", help="a JSON document on each line")


def _run(options: argparse.Namespace) -> int:
    from semel.testing.tracing.proxy import Proxy
    from semel.testing.tracing.wire_trace import WireTrace
    from semel.wire.apis import APIS

    listen, to = (parse_address(name, getattr(options, name[2:])) for name in ("--listen", "--to"))
    if not to.host:  # ``:9092``, a broker on this machine.
        to = to._replace(host="127.0.0.1")
    if not to.port:
        raise UsageError(f"--to {options.to}: it takes the form HOST:PORT, with a port from 1 to 65535")
    names = {api.name.lower(): api.name for api in APIS.values()}
    for name in options.only:
        if name.lower() not in names:
            raise UsageError(f"--only {name}: there is no such API; names are those of Kafka, as in EndTxn")
    only = {names[name.lower()] for name in options.only}
    to_brokers, to_clients = broker_tls(options, str(to)), _client_tls(options.certificate)
    printer = _Printer(as_json=options.json, only=only, without=_QUIET - only if options.quiet else frozenset())
    try:
        check_free(listen.host, listen.port)
        with Proxy(
            (to,),
            listen=listen,
            observer=WireTrace(printer.show),
            found=printer.found,
            unreachable=printer.unreachable,
            broker_tls=to_brokers,
            client_tls=to_clients,
        ):
            threading.Event().wait()
    except OSError as error:
        raise SemelError(listening_failed(error, options.listen)) from None
    return Exit.OK


def _client_tls(path: str | None) -> ssl.SSLContext | None:
    """Return the TLS context for clients, with the proxy's certificate; ``None`` if clients connect without TLS."""
    if path is None:
        return None
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # With an encrypted key and no password, OpenSSL would ask for the password at the terminal.
        context.load_cert_chain(path, password="")
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise UsageError(f"--certificate {path} cannot be used: {reason}") from None
    return context


class _Printer:
    def __init__(self, *, as_json: bool, only: set[str], without: frozenset[str]) -> None:
        self._as_json = as_json
        self._only = only
        self._without = without
        self._colour = is_colourful(sys.stdout)
        self._peer_width = 0
        self._unreachable: set[tuple[object, str]] = set()

    def unreachable(self, broker: object, error: OSError) -> None:
        """Print that a broker cannot be connected to, once for each reason, because clients try again and again."""
        reason = getattr(error, "verify_message", None) or error.strerror or str(error)
        if (broker, reason) not in self._unreachable:
            self._unreachable.add((broker, reason))
            say(f"{broker} cannot be connected to: {reason}")

    def found(self, broker: object, at: object) -> None:
        say(f"{at} stands for {broker}")

    def show(self, event: WireEvent) -> None:
        if (self._only and event.api not in self._only) or event.api in self._without:
            return
        try:
            print(json.dumps(event.as_dict(), ensure_ascii=False) if self._as_json else self._line(event), flush=True)
        except BrokenPipeError:
            # The reader of the output has closed it. The proxy goes on, because clients still need it.
            self._only = {"nothing"}

    def _line(self, event: WireEvent) -> str:
        from semel.testing.tracing.wire_trace import WireEventKind

        time = (time_text(event.time_ms) or "")[11:-1]
        peer = f"{event.connection}:{event.client_id or '-'}"
        self._peer_width = max(self._peer_width, min(len(peer), 24))
        arrow = {WireEventKind.REQUEST: ">", WireEventKind.ANSWER: "<"}.get(event.kind, "x")
        took = "" if event.elapsed_ms is None else f"  {event.elapsed_ms:.1f} ms"
        line = f"{time} {peer:<{self._peer_width}} {arrow} {event.text}"
        if not self._colour:
            return line + took
        return (f"{_RED}{line}{_PLAIN}" if event.errors else line) + f"{_DIM}{took}{_PLAIN}"
