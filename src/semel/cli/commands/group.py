"""``semel group``: list, describe with lag, trace, reset offsets, delete."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from semel.cli.exits import Exit, UsageError
from semel.cli.option_values import client_settings, partition_of
from semel.cli.parsing import Subcommands, add_command, add_connection_and_json, add_family
from semel.cli.terminal.output import print_deleted, print_facts, print_rows
from semel.cli.terminal.times import timestamp_of

if TYPE_CHECKING:
    from semel.blocking import Admin
    from semel.client.admin.group_descriptions import GroupDescription
    from semel.types import TopicPartition


_STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Stable", "Empty", "Dead")


def add_parser(commands: Subcommands) -> None:
    family = add_family(
        commands,
        "group",
        "look at consumer groups and change them",
        "  semel group list\n"
        "  semel group describe billing\n"
        "  semel group trace billing\n"
        "  semel group reset-offsets billing --topic orders --to-earliest --dry-run",
    )
    listing = add_command(family, "list", "list the groups", "  semel group list --state Stable", _list)
    listing.add_argument(
        "--state", action="append", default=[], choices=_STATES, help="only those in this state; may be repeated"
    )
    describe = add_command(
        family,
        "describe",
        "show members, offsets and lag",
        "  semel group describe billing\n"
        "  semel group describe billing --json | jq '[.offsets[].lag] | add'\n\n"
        "lag counts what a read_committed reader could still read: it is 0 when only control or\n"
        "aborted records remain.",
        _describe,
    )
    describe.add_argument("group")
    trace = add_command(
        family,
        "trace",
        "tell the life of a group from the log",
        "  semel group trace billing\n"
        "  semel group trace billing --json | jq '.events[-1].members'\n\n"
        "Every generation with its time, leader, assignor and what each member was given; for a group of KIP-848's\n"
        "protocol every epoch, target and assignment; and how often offsets were committed since the line before.\n"
        "Compaction shortens the history: the first lines say from when it is whole.",
        _trace,
    )
    trace.add_argument("group")
    reset = add_command(
        family,
        "reset-offsets",
        "move a group that has no members",
        "  semel group reset-offsets billing --topic orders --to-earliest --dry-run\n"
        "  semel group reset-offsets billing --partition orders:3 --to-offset 1200\n"
        "  semel group reset-offsets billing --all-topics --to-datetime 2026-01-31T12:00:00Z",
        _reset,
    )
    reset.add_argument("group")
    reset.add_argument("--topic", action="append", default=[], help="all its partitions; may be repeated")
    reset.add_argument("--partition", action="append", default=[], metavar="TOPIC:PARTITION", help="may be repeated")
    reset.add_argument("--all-topics", action="store_true", help="every partition that the group has an offset of")
    to = reset.add_mutually_exclusive_group(required=True)
    to.add_argument("--to-earliest", action="store_true")
    to.add_argument("--to-latest", action="store_true")
    to.add_argument("--to-current", action="store_true", help="where it is: shows it, or commits it again")
    to.add_argument("--to-offset", type=int, metavar="OFFSET")
    to.add_argument("--shift-by", type=int, metavar="N", help="forward, or back with a negative number")
    to.add_argument("--to-datetime", metavar="TIME", help="the first record that is as late as 2026-01-31T12:00:00Z")
    reset.add_argument("--dry-run", action="store_true", help="show what would be, and change nothing")
    delete = add_command(
        family, "delete", "delete groups that have no members", "  semel group delete billing", _delete
    )
    delete.add_argument("groups", nargs="+", metavar="group")
    add_connection_and_json(listing, describe, trace, reset, delete)


def _list(options: argparse.Namespace) -> int:
    from semel.blocking import Admin

    with Admin(**client_settings(options)) as admin:
        groups = admin.groups.list(states=options.state)
    rows = [
        {"group": group.group_id, "state": group.state, "type": group.type, "protocol": group.protocol_type}
        for group in groups
    ]
    print_rows(rows, ("group", "state", "type", "protocol"), as_json=options.json, empty="no groups")
    return Exit.OK


def _describe(options: argparse.Namespace) -> int:
    from semel.blocking import Admin

    with Admin(**client_settings(options)) as admin:
        group = admin.groups.describe(options.group)
        offsets = _offset_rows(admin, group)
    members = [
        {
            "member": member.member_id,
            "instance": member.group_instance_id,
            "client": member.client_id,
            "host": member.client_host,
            "partitions": [f"{topic}:{index}" for topic, index in member.assignment],
        }
        for member in group.members
    ]
    facts = {"group": group.group_id, "state": group.state, "type": group.type, "assignor": group.assignor or None}
    if options.json:
        print_facts({**facts, "members": members, "offsets": offsets}, as_json=True)
        return Exit.OK
    print_facts(facts, as_json=False)
    print()
    print_rows(members, ("member", "instance", "client", "host", "partitions"), as_json=False, empty="no members")
    print()
    print_rows(offsets, ("partition", "committed", "end", "lag", "member"), as_json=False, empty="no offsets")
    for row in offsets:
        if row["trouble"] is not None:
            print(f"{row['partition']}: {row['trouble']}")
    return Exit.OK


def _trace(options: argparse.Namespace) -> int:
    from semel.blocking import Admin
    from semel.cli.traces.group import print_group_trace
    from semel.inspection.group_trace import group_trace

    with Admin(**client_settings(options)) as admin:
        print_group_trace(group_trace(admin, options.group), as_json=options.json)
    return Exit.OK


def _offset_rows(admin: Admin, group: GroupDescription) -> list[dict[str, Any]]:
    from semel.inspection.group_offsets import group_offsets

    return [
        {
            "partition": f"{found.partition.topic}:{found.partition.partition}",
            "committed": found.committed,
            "end": found.end,
            "lag": found.lag,
            "member": found.member,
            "trouble": found.trouble,
        }
        for found in group_offsets(admin, group)
    ]


def _reset(options: argparse.Namespace) -> int:
    from semel.blocking import Admin

    with Admin(**client_settings(options)) as admin:
        current = admin.groups.list_offsets(options.group)
        partitions = _chosen(admin, options, current)
        wanted = _destinations(admin, options, partitions, current)
        if not options.dry_run:
            admin.groups.alter_offsets(options.group, wanted).all()
    rows = [
        {
            "partition": f"{partition.topic}:{partition.partition}",
            "from": current[partition].offset if partition in current else None,
            "to": offset,
        }
        for partition, offset in sorted(wanted.items())
    ]
    print_rows(rows, ("partition", "from", "to"), as_json=options.json, empty="nothing to reset")
    if options.dry_run and not options.json:
        print("\nnothing was changed (--dry-run)")
    return Exit.OK


def _chosen(admin: Admin, options: argparse.Namespace, current: Mapping[TopicPartition, Any]) -> list[TopicPartition]:
    from semel.types import TopicPartition

    if not (options.topic or options.partition or options.all_topics):
        raise UsageError("which partitions? Name them with --topic, --partition or --all-topics")
    chosen = set(current) if options.all_topics else set()
    for topic in options.topic:
        description = admin.topics.describe(topic)
        chosen.update(TopicPartition(topic, partition.partition) for partition in description.partitions)
    chosen.update(TopicPartition(*partition_of("--partition", text)) for text in options.partition)
    return sorted(chosen)


def _destinations(
    admin: Admin, options: argparse.Namespace, partitions: list[TopicPartition], current: Mapping[TopicPartition, Any]
) -> dict[TopicPartition, int]:
    from semel.inspection.group_offsets import ResetTo, reset_destinations

    to, number = ResetTo.CURRENT, None
    if options.to_earliest:
        to = ResetTo.EARLIEST
    elif options.to_latest:
        to = ResetTo.LATEST
    elif options.to_offset is not None:
        to, number = ResetTo.OFFSET, options.to_offset
    elif options.shift_by is not None:
        to, number = ResetTo.SHIFT, options.shift_by
    elif options.to_datetime is not None:
        to, number = ResetTo.TIME, timestamp_of(options.to_datetime)
    try:
        return reset_destinations(admin, partitions, current, to, number)
    except ValueError as error:
        raise UsageError(f"--to-offset {error}") from None


def _delete(options: argparse.Namespace) -> int:
    from semel.blocking import Admin

    with Admin(**client_settings(options)) as admin:
        results = admin.groups.delete_many(options.groups)
    print_deleted(results, as_json=options.json)
    return Exit.OK
