"""``semel serve``: run a broker until it is told to stop."""

from __future__ import annotations

import argparse
import errno
from typing import TYPE_CHECKING, Final

from semel.cli.exits import Exit, UsageError
from semel.cli.option_values import file_text, key_and_value
from semel.cli.parsing import Subcommands

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from semel.broker.broker import Address, Broker

EXAMPLES: Final = """\
examples:
  semel serve
      listen on 127.0.0.1:9092 and keep the data in ./semel-data

  semel serve --data-dir /var/lib/semel --listen 0.0.0.0:9092 --advertise kafka.example.org:9092
      be reachable from other machines, under the name that clients know

  semel serve --set num.partitions=4 --set flush=os --metrics 127.0.0.1:9100
      other settings (docs/configuration.md lists them all), and numbers for Prometheus

The broker says "semel ready on HOST:PORT" when it serves. SIGTERM or Ctrl-C stops it: what was asked is answered, and
the next start has nothing to recover. It ends within ten seconds, whatever clients and disks do, and at once when it is
told a second time. After that, a crash or a power cut it recovers by itself.

exit codes: 0 stopped cleanly, 1 not started, or ended with something left for the next start to recover, 2 wrong usage
"""


def add_parser(commands: Subcommands) -> None:
    parser = commands.add_parser(
        "serve",
        help="run a broker",
        description="Run a Kafka-compatible broker.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data-dir", metavar="DIR", help="where all data is kept (default: ./semel-data)")
    parser.add_argument(
        "--listen", metavar="HOST:PORT", default="127.0.0.1:9092", help="where to listen (default: %(default)s)"
    )
    parser.add_argument(
        "--advertise", metavar="HOST:PORT", help="the address that clients are told to use (default: that of --listen)"
    )
    parser.add_argument("--metrics", metavar="HOST:PORT", help="serve GET /metrics for Prometheus there")
    parser.add_argument("--config", metavar="FILE", help="settings, in the syntax of Kafka's server.properties")
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="one setting; wins over the file; may be repeated",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    # Imported here, so that `semel --help` does not wait for a broker.
    from semel.cli.running import run_broker
    from semel.errors import SemelError
    from semel.settings import SettingError

    try:
        make_broker = _maker(options)
    except SettingError as error:
        raise UsageError(str(error)) from None
    # Before the broker makes its data directory: an address that is taken leaves nothing behind.
    addresses = [address for address in (options.listen, options.metrics) if address is not None]
    for address in addresses:
        try:
            _check_free(*_address("", address))
        except OSError as error:
            raise SemelError(_sentence(error, address)) from None
    try:
        clean = run_broker(make_broker, ready=_say_ready)
    except OSError as error:
        raise SemelError(_sentence(error, " or ".join(addresses))) from None
    return Exit.OK if clean else Exit.FAILED


def _maker(options: argparse.Namespace) -> Callable[[asyncio.AbstractEventLoop], Broker]:
    """Everything that can be wrong with the arguments, before anything is touched."""
    from random import SystemRandom

    from semel.broker.broker import Broker
    from semel.broker.config.broker_config import BrokerConfig
    from semel.broker.network.descriptors import raised_descriptors
    from semel.clock import SystemClock
    from semel.log.disk import SystemDisk
    from semel.log.worker import ThreadWorker
    from semel.net.network import SystemNetwork

    overrides = dict(key_and_value("--set", text) for text in options.set)
    if options.data_dir is not None:
        overrides["log.dirs"] = options.data_dir
    config = BrokerConfig.load("" if options.config is None else file_text("--config", options.config), overrides)
    listen = _address("--listen", options.listen)
    advertise = None if options.advertise is None else _address("--advertise", options.advertise)
    metrics = None if options.metrics is None else _address("--metrics", options.metrics)
    if advertise is None and listen.host in ("", "0.0.0.0", "::"):
        raise UsageError(
            f"--listen {options.listen} is not an address that clients can reach: name one with --advertise HOST:PORT"
        )
    return lambda loop: Broker(
        config,
        listen=listen,
        advertise=advertise,
        metrics_listen=metrics,
        disk=SystemDisk(),
        network=SystemNetwork(),
        clock=SystemClock(),
        random=SystemRandom(),
        make_worker=lambda name: ThreadWorker(loop, name),
        descriptors=raised_descriptors(),
    )


def _address(option: str, text: str) -> Address:
    from semel.broker.broker import Address

    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise UsageError(f"{option} {text}: it takes the form HOST:PORT, with a port from 0 to 65535")
    return Address(host, int(port))


def _say_ready(broker: Broker) -> None:
    (folder,) = broker.config.log_dirs
    line = (
        f"semel ready on {broker.address}, node {broker.config.node_id}, cluster {broker.cluster_id}, data in {folder}"
    )
    if broker.metrics_address is not None:
        line += f", metrics on http://{broker.metrics_address}/metrics"
    print(line, flush=True)


def _check_free(host: str, port: int) -> None:
    """Raises the ``OSError`` that listening there would raise now."""
    import socket

    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    failures = []
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(address)
        except OSError as error:
            failures.append(error)
            if error.errno == errno.EADDRINUSE:
                raise
    if len(failures) == len(found):
        raise failures[0]


def _sentence(error: OSError, address: str) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"cannot listen: {address} is in use by another process"
        case errno.EADDRNOTAVAIL:
            return f"cannot listen: this machine has no address {address}"
        case _:
            return f"the broker cannot start: {error}"
