"""``semel cluster info``: the brokers, features and contents of a cluster."""

from __future__ import annotations

import argparse

from semel.cli.exits import Exit
from semel.cli.option_values import client_settings
from semel.cli.output import print_facts, print_rows
from semel.cli.parsing import Subcommands, add_command, add_connection_and_json, add_family


def add_parser(commands: Subcommands) -> None:
    family = add_family(commands, "cluster", "look at the cluster", "  semel cluster info")
    info = add_command(
        family,
        "info",
        "show brokers, features and disks",
        "  semel cluster info\n  semel cluster info --json | jq '.features'",
        _info,
    )
    add_connection_and_json(info)


def _info(options: argparse.Namespace) -> int:
    from semel.blocking import Admin

    with Admin(**client_settings(options)) as admin:
        cluster = admin.cluster.describe()
        features = admin.cluster.features()
        topics = admin.topics.list()
        sizes = {
            broker: sum(folder.size_bytes for folder in folders.values())
            for broker, folders in admin.cluster.log_dirs().all().items()
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
