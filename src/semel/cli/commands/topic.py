"""``semel topic``: list, describe, create and delete topics, add partitions, delete records."""

from __future__ import annotations

import argparse

from semel.cli.exits import Exit
from semel.cli.option_values import client_settings, has_tls, key_and_value, partition_of
from semel.cli.parsing import Subcommands, add_command, add_connection_and_json, add_family
from semel.cli.terminal.output import print_deleted, print_facts, print_rows
from semel.inspection.offsets import offsets_at


def add_parser(commands: Subcommands) -> None:
    family = add_family(
        commands,
        "topic",
        "look at topics and change them",
        "  semel topic create orders --partitions 6 --config retention.ms=86400000\n"
        "  semel topic list --json | jq -r '.[].name'\n"
        "  semel topic describe orders",
    )
    listing = add_command(family, "list", "list the topics", "  semel topic list", _list)
    listing.add_argument("--internal", action="store_true", help="the brokers' own topics, too")
    describe = add_command(
        family,
        "describe",
        "show the partitions of a topic, and how far they go",
        "  semel topic describe orders",
        _describe,
    )
    describe.add_argument("topic")
    create = add_command(
        family,
        "create",
        "make a topic",
        "  semel topic create orders\n"
        "  semel topic create totals --partitions 6 --config cleanup.policy=compact --if-not-exists",
        _create,
    )
    create.add_argument("topic")
    create.add_argument("--partitions", type=int, metavar="N", help="how many (default: the broker's num.partitions)")
    create.add_argument("--replication-factor", type=int, metavar="N", help="copies (default: the broker's)")
    create.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="a setting; may be repeated")
    create.add_argument("--if-not-exists", action="store_true", help="no error if there is one already")
    delete = add_command(family, "delete", "delete topics and all they hold", "  semel topic delete orders", _delete)
    delete.add_argument("topics", nargs="+", metavar="topic")
    add_partitions = add_command(
        family,
        "add-partitions",
        "give a topic more partitions",
        "  semel topic add-partitions orders 12",
        _add_partitions,
    )
    add_partitions.add_argument("topic")
    add_partitions.add_argument("total", type=int, help="how many it shall have in all")
    truncate = add_command(
        family,
        "delete-records",
        "delete the records of a partition before an offset",
        "  semel topic delete-records orders:0 --before 1000\n  semel topic delete-records orders:0   # all of them",
        _delete_records,
    )
    truncate.add_argument("partition", metavar="TOPIC:PARTITION")
    truncate.add_argument("--before", type=int, metavar="OFFSET", help="the first one to keep (default: none is kept)")
    add_connection_and_json(listing, describe, create, delete, add_partitions, truncate)


def _list(options: argparse.Namespace) -> int:
    from semel.blocking import Admin

    with Admin(**client_settings(options)) as admin:
        topics = admin.topics.list(include_internal=options.internal)
    rows = [
        {"name": topic.name, "partitions": topic.partitions, "internal": topic.is_internal, "id": str(topic.topic_id)}
        for _, topic in sorted(topics.items())
    ]
    print_rows(rows, ("name", "partitions", "internal", "id"), as_json=options.json, empty="no topics")
    return Exit.OK


def _describe(options: argparse.Namespace) -> int:
    from semel.blocking import Admin
    from semel.cli.cluster_status import answering
    from semel.client.admin.configs import ConfigResource
    from semel.client.admin.partitions import OffsetSpec
    from semel.types import TopicPartition
    from semel.wire.codes import ConfigSource

    settings = client_settings(options)
    with Admin(**settings) as admin:
        topic = admin.topics.describe(options.topic)
        partitions = [TopicPartition(topic.name, partition.partition) for partition in topic.partitions]
        # Offsets are read only from leaders that answer: for the others the client would wait until its timeout.
        up = answering(admin.cluster.describe().brokers, has_tls=has_tls(settings))
        led = [key for partition, key in zip(topic.partitions, partitions, strict=True) if partition.leader in up]
        starts = offsets_at(admin, led, OffsetSpec.EARLIEST)
        ends = offsets_at(admin, led, OffsetSpec.LATEST)
        stable = offsets_at(admin, led, OffsetSpec.LATEST, "read_committed")
        configs = admin.configs.describe(ConfigResource.topic(topic.name))
    rows = [
        {
            "partition": partition.partition,
            "leader": partition.leader,
            "replicas": list(partition.replicas),
            "in_sync": list(partition.in_sync),
            "start": starts.get(key),
            "last_stable": stable.get(key),
            "end": ends.get(key),
        }
        for partition, key in zip(topic.partitions, partitions, strict=True)
    ]
    own = {entry.name: entry.value for entry in configs.values() if entry.source is ConfigSource.TOPIC}
    if options.json:
        facts = {"name": topic.name, "id": str(topic.topic_id), "configs": own, "partitions": rows}
        print_facts(facts, as_json=True)
        return Exit.OK
    shown = [f"{name}={value}" for name, value in sorted(own.items())]
    print_facts({"topic": topic.name, "id": topic.topic_id, "settings": shown}, as_json=False)
    print()
    print_rows(rows, tuple(rows[0]), as_json=False)
    return Exit.OK


def _create(options: argparse.Namespace) -> int:
    from semel.blocking import Admin
    from semel.errors import ErrorCode, KafkaError

    configs = dict(key_and_value("--config", text) for text in options.config)
    with Admin(**client_settings(options)) as admin:
        try:
            made = admin.topics.create(
                options.topic,
                partitions=options.partitions,
                replication_factor=options.replication_factor,
                configs=configs,
            )
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS or not options.if_not_exists:
                raise
            print_facts({"topic": options.topic, "created": False}, as_json=options.json)
            return Exit.OK
    print_facts({"topic": made.name, "created": True, "partitions": made.partitions}, as_json=options.json)
    return Exit.OK


def _delete(options: argparse.Namespace) -> int:
    from semel.blocking import Admin

    with Admin(**client_settings(options)) as admin:
        results = admin.topics.delete_many(options.topics)
    print_deleted(results, as_json=options.json)
    return Exit.OK


def _add_partitions(options: argparse.Namespace) -> int:
    from semel.blocking import Admin

    with Admin(**client_settings(options)) as admin:
        admin.topics.create_partitions(options.topic, options.total)
    print_facts({"topic": options.topic, "partitions": options.total}, as_json=options.json)
    return Exit.OK


def _delete_records(options: argparse.Namespace) -> int:
    from semel.blocking import Admin

    partition = partition_of("TOPIC:PARTITION", options.partition)
    with Admin(**client_settings(options)) as admin:
        (start,) = admin.partitions.delete_records({partition: options.before}).all().values()
    print_facts({"partition": options.partition, "starts_at": start}, as_json=options.json)
    return Exit.OK
