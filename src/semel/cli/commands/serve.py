"""``semel serve``: runs a broker until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from semel.cli.addresses import check_free, listening_failed, parse_address
from semel.cli.exits import Exit, UsageError
from semel.cli.option_values import file_text, key_and_value
from semel.cli.parsing import Subcommands
from semel.cli.terminal.service_manager import notify_ready

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from semel.broker.broker import Broker
    from semel.types import Address

LISTEN: Final = "127.0.0.1:9092"

EXAMPLES: Final = """\
examples:
  semel serve
      listen on 127.0.0.1:9092 and keep the data in ./semel-data

  semel serve --data-dir /var/lib/semel --listen 0.0.0.0:9092 --advertise kafka.example.org:9092
      be reachable from other machines, under the name that clients know

  semel serve --set num.partitions=4 --set flush=os --metrics 127.0.0.1:9100
      other settings (docs/configuration.md lists them all), and numbers for Prometheus

With --set listeners=NAME://HOST:PORT,... it listens on several ports, with TLS where that is asked; with --set
zookeeper.connect=HOST:PORT and a node.id of its own it is one of several, which coordinate through ZooKeeper (pip
install 'semel[cluster]'). docs/operations.md describes both.

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
        "--listen",
        metavar="HOST:PORT",
        help=f"where to listen, without TLS and SASL (default: {LISTEN}, or the setting listeners)",
    )
    parser.add_argument(
        "--advertise", metavar="HOST:PORT", help="the address that clients are told to use (default: that of --listen)"
    )
    parser.add_argument(
        "--inter-broker-listen",
        metavar="HOST:PORT",
        help="where the other brokers of the cluster reach this one, with zookeeper.connect (default: the host of "
        "--listen, any free port)",
    )
    parser.add_argument(
        "--accept-loss",
        action="store_true",
        help="with zookeeper.connect: serve an empty data directory, although partitions of this node should be in it",
    )
    parser.add_argument("--metrics", metavar="HOST:PORT", help="serve GET /metrics for Prometheus there")
    parser.add_argument(
        "--console",
        metavar="HOST:PORT",
        help="show this broker in the browser there: semel console, in its own process",
    )
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
    from semel.cli.console_process import started_console
    from semel.cli.running import run_broker
    from semel.errors import SemelError
    from semel.settings import SettingError

    try:
        make_broker, addresses = _maker(options)
    except SettingError as error:
        raise UsageError(str(error)) from None
    # Checked before the broker creates its data directory, so that a start on a used address leaves nothing behind.
    for address in addresses:
        try:
            check_free(*address)
        except OSError as error:
            raise SemelError(listening_failed(error, str(address))) from None
    with started_console(options.console) as start_console:

        def ready(broker: Broker) -> None:
            _say_ready(broker)
            start_console(str(broker.address))

        try:
            clean = run_broker(make_broker, ready=ready)
        except OSError as error:
            raise SemelError(listening_failed(error, " or ".join(map(str, addresses)))) from None
    return Exit.OK if clean else Exit.FAILED


def _maker(options: argparse.Namespace) -> tuple[Callable[[asyncio.AbstractEventLoop], Broker], list[Address]]:
    """Check all arguments. Returns a function that makes the broker, and the addresses on which it will listen.

    Nothing is changed yet. Raises ``UsageError`` or ``SettingError``.
    """
    from random import SystemRandom

    from semel.broker.broker import Broker
    from semel.broker.config.broker_config import BrokerConfig
    from semel.broker.endpoints import WILDCARD_HOSTS, check_listeners
    from semel.broker.network.descriptors import raised_descriptors
    from semel.clock import SystemClock
    from semel.log.disk import SystemDisk
    from semel.log.worker import ThreadWorker
    from semel.net.network import SystemNetwork
    from semel.types import Address

    overrides = dict(key_and_value("--set", text) for text in options.set)
    if options.data_dir is not None:
        overrides["log.dirs"] = options.data_dir
    config = BrokerConfig.load("" if options.config is None else file_text("--config", options.config), overrides)
    listen = None
    if config.listeners is None or options.listen is not None:
        listen = parse_address("--listen", options.listen or LISTEN)
    advertise = None if options.advertise is None else parse_address("--advertise", options.advertise)
    metrics = None if options.metrics is None else parse_address("--metrics", options.metrics)
    inter_broker = None
    if options.inter_broker_listen is not None:
        if config.zookeeper_connect is None:
            raise UsageError("--inter-broker-listen is for brokers of one cluster: set zookeeper.connect as well")
        inter_broker = parse_address("--inter-broker-listen", options.inter_broker_listen)
    if options.accept_loss and config.zookeeper_connect is None:
        raise UsageError("--accept-loss is for brokers of one cluster: set zookeeper.connect as well")
    listeners = check_listeners(config, listen, advertise, inter_broker)
    if listen is not None and advertise is None and listen.host in WILDCARD_HOSTS:
        raise UsageError(
            f"--listen {options.listen} is not an address that clients can reach: name one with --advertise HOST:PORT"
        )
    console = None if options.console is None else parse_address("--console", options.console)
    first = None if listeners is None else listeners.clients[0]
    if console is not None and first is not None and first.protocol.name != "PLAINTEXT":
        raise UsageError(f"--console has no settings for {first}: start semel console --command-config FILE by itself")
    of_settings = () if listeners is None else (*listeners.clients, listeners.brokers)
    addresses = [address for address in (listen, inter_broker, metrics, console) if address is not None]
    addresses += [Address(listener.host, listener.port) for listener in of_settings if listener is not None]

    def make(loop: asyncio.AbstractEventLoop) -> Broker:
        return Broker(
            config,
            listen=listen,
            advertise=advertise,
            metrics_listen=metrics,
            inter_broker_listen=inter_broker,
            accept_loss=options.accept_loss,
            disk=SystemDisk(),
            network=SystemNetwork(),
            clock=SystemClock(),
            random=SystemRandom(),
            make_worker=lambda name: ThreadWorker(loop, name),
            descriptors=raised_descriptors(),
        )

    return make, addresses


def _say_ready(broker: Broker) -> None:
    (folder,) = broker.config.log_dirs
    line = (
        f"semel ready on {broker.address}, node {broker.config.node_id}, cluster {broker.cluster_id}, data in {folder}"
    )
    if len(broker.endpoints.addresses) > 1:
        line += f", listeners {' '.join(f'{name}://{address}' for name, address in broker.endpoints.addresses.items())}"
    if broker.metrics_address is not None:
        line += f", metrics on http://{broker.metrics_address}/metrics"
    print(line, flush=True)
    notify_ready()
