"""``semel cluster``: run several brokers on this machine, and look at the brokers of a cluster."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from semel.cli.exits import Exit, UsageError
from semel.cli.option_values import client_settings, has_tls, key_and_value
from semel.cli.parsing import Subcommands, add_command, add_connection_and_json, add_family
from semel.cli.terminal.output import print_facts, print_rows, say

if TYPE_CHECKING:
    from pathlib import Path

    from semel.cli.local_cluster.cluster_file import ClusterFile

DATA_DIR: Final = "semel-cluster"
BROKERS: Final = 3
PORT: Final = 9092

UP_EXAMPLES: Final = f"""\
  semel cluster up
      three brokers and a ZooKeeper, on 127.0.0.1 and the ports from {PORT} on, with their data in ./{DATA_DIR}

  semel cluster up --brokers 5 --data-dir /tmp/five --port 0 --set num.partitions=10
      five, on ports that are free, with a setting for each

  semel cluster up --zookeeper-jars /opt/zookeeper/lib
      ZooKeeper from its own release instead of PySpark's jars

It says "semel cluster ready on HOST:PORT,..." when all brokers serve. What they say is in broker-N.txt in the data
directory. A process that ends is started again: try kill -9 $(cat semel-cluster/broker-2.pid). SIGTERM or Ctrl-C stops
all of it, within fifteen seconds and at once the second time. Started again on the same directory it is the same
cluster, on the same ports.

It is for one machine. Brokers on several: semel serve --set zookeeper.connect=..., see docs/operations.md.

exit codes: 0 stopped cleanly, 1 not started, or ended with something left to recover, 2 wrong usage"""

STATUS_EXAMPLES: Final = """\
  semel cluster status
  semel cluster status --data-dir semel-cluster
      the cluster of `semel cluster up`, with what its ZooKeeper knows
  semel cluster status --bootstrap-server 10.0.0.1:9092 --zookeeper 10.0.0.9:2181/semel
  semel cluster status --json | jq '.brokers[] | select(.state != "up")'

A broker's state is up, no answer (registered, and cannot be reached), or not registered (it has partitions, and is no
member now). Broker epochs and sessions are in ZooKeeper, and shown where it is named.

exit codes: 0 all brokers are up and every partition has a leader, 5 not so, 4 no broker answered"""


def add_parser(commands: Subcommands) -> None:
    family = add_family(
        commands,
        "cluster",
        "run several brokers, and look at the cluster",
        "  semel cluster up\n  semel cluster status\n  semel cluster info",
    )
    up = add_command(family, "up", "run several brokers, and ZooKeeper, on this machine", UP_EXAMPLES, _up)
    up.add_argument("--brokers", metavar="N", type=int, help=f"how many (default: {BROKERS}, or as many as there are)")
    up.add_argument(
        "--data-dir", metavar="DIR", default=DATA_DIR, help="where all data is kept (default: ./%(default)s)"
    )
    up.add_argument(
        "--port",
        metavar="PORT",
        type=int,
        help=f"the first broker's; all others follow; 0: any that are free (default: {PORT}, or as it was)",
    )
    up.add_argument(
        "--zookeeper-jars", metavar="DIR", help="a folder with ZooKeeper's jars (default: those that PySpark has)"
    )
    up.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="one setting of every broker; may be repeated",
    )
    status = add_command(family, "status", "show brokers, controller, leaders and sessions", STATUS_EXAMPLES, _status)
    add_connection_and_json(status)
    status.add_argument("--zookeeper", metavar="HOST:PORT[/CHROOT]", help="ask it for broker epochs and sessions")
    status.add_argument("--data-dir", metavar="DIR", help="of `semel cluster up`: ask its brokers and its ZooKeeper")
    info = add_command(
        family,
        "info",
        "show brokers, features and disks",
        "  semel cluster info\n  semel cluster info --json | jq '.features'",
        _info,
    )
    add_connection_and_json(info)


# up


def _up(options: argparse.Namespace) -> int:
    # Imported here, so that `semel --help` does not wait for it.
    import time
    from pathlib import Path

    from semel.cli.local_cluster.local_cluster import LocalCluster
    from semel.cli.local_cluster.zookeeper_server import jars_in, java_executable
    from semel.cli.terminal.interruption import Interrupted, interruptible

    folder = Path(options.data_dir).absolute()
    for setting in options.set:
        key_and_value("--set", setting)
    ports = _ports(options, folder)
    _check_kazoo()
    java, jars = java_executable(), jars_in(Path(options.zookeeper_jars) if options.zookeeper_jars else None)
    _check_ports(ports)
    folder.mkdir(parents=True, exist_ok=True)
    ports.write(folder)
    cluster = LocalCluster(folder, ports, java=java, jars=jars, settings=options.set, say=say)
    is_clean = False
    try:
        with interruptible() as interruption:
            try:
                if cluster.start(lambda: interruption.was_signalled):
                    print(
                        f"semel cluster ready on {ports.bootstrap_servers}, ZooKeeper on {ports.zookeeper_address}, "
                        f"data in {folder}",
                        flush=True,
                    )
                while not interruption.was_signalled:
                    cluster.tend()
                    time.sleep(0.1)
                is_clean = cluster.stop()
            finally:
                cluster.kill()
    except Interrupted:
        pass  # The usual end: a signal told it to stop.
    return Exit.OK if is_clean else Exit.FAILED


def _ports(options: argparse.Namespace, folder: Path) -> ClusterFile:
    """Return the brokers and ports of an earlier start in this folder, or new ones if there was none.

    Raises ``UsageError`` if the options contradict those of the earlier start.
    """
    from semel.cli.local_cluster.cluster_file import ClusterFile

    if options.brokers is not None and options.brokers < 1:
        raise UsageError(f"--brokers {options.brokers}: a cluster has at least one")
    known = ClusterFile.read(folder)
    if known is None:
        try:
            return ClusterFile.planned(options.brokers or BROKERS, PORT if options.port is None else options.port)
        except (ValueError, OverflowError) as error:
            raise UsageError(f"--port {options.port}: {error}") from None
    if options.brokers not in (None, len(known.brokers)):
        raise UsageError(
            f"--brokers {options.brokers}: {folder} is a cluster of {len(known.brokers)}. Name another --data-dir"
        )
    if options.port not in (None, 0, known.brokers[0].clients):
        raise UsageError(
            f"--port {options.port}: the cluster in {folder} is on {known.bootstrap_servers}. Name another --data-dir"
        )
    return known


def _check_kazoo() -> None:
    from importlib.util import find_spec

    from semel.errors import SemelError

    if find_spec("kazoo") is None:
        raise SemelError("a cluster needs kazoo, which is not installed: pip install 'semel[cluster]'")


def _check_ports(ports: ClusterFile) -> None:
    from semel.cli.addresses import check_free, listening_failed
    from semel.cli.local_cluster.cluster_file import HOST
    from semel.errors import SemelError

    for port in ports.ports:
        try:
            check_free(HOST, port)
        except OSError as error:
            raise SemelError(listening_failed(error, f"{HOST}:{port}")) from None


# status


def _status(options: argparse.Namespace) -> int:
    from pathlib import Path

    from semel.blocking import Admin
    from semel.cli.cluster_status import cluster_status, registrations_in
    from semel.cli.local_cluster.cluster_file import ClusterFile

    zookeeper = options.zookeeper
    if options.data_dir is not None:
        known = ClusterFile.read(Path(options.data_dir))
        if known is None:
            raise UsageError(f"--data-dir {options.data_dir}: `semel cluster up` was never run there")
        options.bootstrap_server, zookeeper = known.bootstrap_servers, zookeeper or known.zookeeper_address
    settings = client_settings(options)
    registrations = None if zookeeper is None else registrations_in(zookeeper)
    with Admin(**settings) as admin:
        status = cluster_status(admin, registrations, has_tls=has_tls(settings))
    facts = {
        "cluster": status.cluster_id,
        "controller": status.controller_id,
        "topics": status.topics,
        "partitions": status.partitions,
        "without_leader": status.without_leader,
        "under_replicated": status.under_replicated,
        "features": dict(status.features),
    }
    if options.json:
        print_facts({**facts, "brokers": status.brokers}, as_json=True)
    else:
        levels = [f"{name} {level}" for name, level in sorted(status.features.items())]
        lists = {
            "without_leader": _some(status.without_leader),
            "under_replicated": _some(status.under_replicated),
            "features": levels,
        }
        print_facts({**facts, **lists}, as_json=False)
        print()
        print_rows(status.brokers, tuple(status.brokers[0]), as_json=False)
    return Exit.OK if status.is_whole else Exit.FOUND


def _some(partitions: list[str], shown: int = 10) -> str:
    more = f" and {len(partitions) - shown} more" if len(partitions) > shown else ""
    return f"{len(partitions)}: {', '.join(partitions[:shown])}{more}" if partitions else "none"


# info


def _info(options: argparse.Namespace) -> int:
    from semel.blocking import Admin
    from semel.cli.cluster_status import answering

    settings = client_settings(options)
    with Admin(**settings) as admin:
        cluster = admin.cluster.describe()
        features = admin.cluster.features()
        topics = admin.topics.list()
        sizes = {
            broker: sum(folder.size_bytes for folder in folders.values())
            for broker, folders in admin.cluster.log_dirs(answering(cluster.brokers, has_tls=has_tls(settings)))
            .all()
            .items()
        }
    brokers = [
        {
            "id": broker.broker_id,
            "address": f"{broker.host}:{broker.port}",
            "rack": broker.rack,
            "controller": broker.broker_id == cluster.controller_id,
            "log_bytes": sizes.get(broker.broker_id),
        }
        for broker in cluster.brokers
    ]
    facts = {
        "cluster": cluster.cluster_id,
        "topics": len(topics),
        "partitions": sum(topic.partitions for topic in topics.values()),
        "features": dict(features.finalized),
    }
    if options.json:
        print_facts({**facts, "brokers": brokers}, as_json=True)
        return Exit.OK
    levels = [f"{name} {level}" for name, level in sorted(features.finalized.items())]
    print_facts({**facts, "features": levels}, as_json=False)
    print()
    print_rows(brokers, tuple(brokers[0]), as_json=False)
    return Exit.OK
