"""``semel user``: lists, adds and removes the users who can log in with a password (SCRAM, and PLAIN over TLS)."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from semel.cli.exits import Exit, UsageError
from semel.cli.option_values import client_settings, file_text, key_and_value
from semel.cli.parsing import Subcommands, add_command, add_connection_and_json, add_family, add_json
from semel.cli.terminal.output import print_facts, print_rows
from semel.cli.terminal.passwords import PASSWORD_VARIABLE, add_password_file, new_password

if TYPE_CHECKING:
    from semel.wire.codes import ScramMechanism

MECHANISMS: Final = ("scram-sha-256", "scram-sha-512")
ITERATIONS: Final = 8192


def add_parser(commands: Subcommands) -> None:
    family = add_family(
        commands,
        "user",
        "look at the users who can log in, and change them",
        "  semel user add alice\n  semel user list\n  semel user remove alice",
    )
    add = add_command(
        family,
        "add",
        "give a user a password, or another one",
        "  semel user add alice\n"
        "  semel user add alice --password-file /run/secrets/alice\n"
        f"  {PASSWORD_VARIABLE}=... semel user add alice --mechanism scram-sha-512",
        _add,
    )
    listing = add_command(
        family,
        "list",
        "list the users, and for which mechanisms they have passwords",
        "  semel user list\n  semel user list --json",
        _list,
    )
    remove = add_command(
        family,
        "remove",
        "take a user's passwords away; its connections stay until they must authenticate again",
        "  semel user remove alice --mechanism scram-sha-256\n  semel user remove alice",
        _remove,
    )
    bootstrap = add_command(
        family,
        "bootstrap",
        "give the first user a password, before there is a broker that could be asked",
        "  semel user bootstrap admin --data-dir /var/lib/semel\n"
        "  semel user bootstrap admin --config server.properties --password-file /run/secrets/admin",
        _bootstrap,
    )
    for parser in (add, remove, bootstrap):
        parser.add_argument("user")
        parser.add_argument(
            "--mechanism", action="append", choices=MECHANISMS, help="may be repeated (default: all of them)"
        )
    for parser in (add, bootstrap):
        parser.add_argument(
            "--iterations",
            type=int,
            default=ITERATIONS,
            metavar="N",
            help="how costly it is to try passwords, 4096 to 16384 (default: %(default)s)",
        )
        add_password_file(parser)
    bootstrap.add_argument("--data-dir", metavar="DIR", help="that of the broker, which does not run")
    bootstrap.add_argument("--config", metavar="FILE", help="settings of the broker")
    bootstrap.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="one setting of the broker")
    add_json(bootstrap)
    add_connection_and_json(add, listing, remove)


def _add(options: argparse.Namespace) -> int:
    from semel.blocking import Admin

    _check(options)
    password = new_password(options)
    with Admin(**client_settings(options)) as admin:
        for mechanism in _mechanisms(options):
            admin.users.upsert(options.user, password, mechanism=mechanism, iterations=options.iterations)
    return _print_added(options)


def _list(options: argparse.Namespace) -> int:
    from semel.blocking import Admin

    with Admin(**client_settings(options)) as admin:
        users = admin.users.list()
    rows = [
        {"user": user, "mechanism": mechanism.name.replace("_", "-"), "iterations": iterations}
        for user, known in sorted(users.items())
        for mechanism, iterations in sorted(known.items())
    ]
    print_rows(rows, ("user", "mechanism", "iterations"), as_json=options.json, empty="no users")
    return Exit.OK


def _remove(options: argparse.Namespace) -> int:
    from semel.blocking import Admin

    with Admin(**client_settings(options)) as admin:
        named = _mechanisms(options) if options.mechanism else list(admin.users.describe(options.user))
        for mechanism in named:
            admin.users.delete(options.user, mechanism=mechanism)
    removed = [mechanism.name.replace("_", "-") for mechanism in named]
    print_facts({"user": options.user, "removed": removed}, as_json=options.json)
    return Exit.OK


def _bootstrap(options: argparse.Namespace) -> int:
    import asyncio
    from random import SystemRandom

    from semel.broker.config.broker_config import BrokerConfig
    from semel.cli.user_bootstrap import bootstrap_user
    from semel.clock import SystemClock
    from semel.log.disk import SystemDisk
    from semel.log.worker import ThreadWorker
    from semel.settings import SettingError

    _check(options)
    overrides = dict(key_and_value("--set", text) for text in options.set)
    if options.data_dir is not None:
        overrides["log.dirs"] = options.data_dir
    try:
        config = BrokerConfig.load("" if options.config is None else file_text("--config", options.config), overrides)
    except SettingError as error:
        raise UsageError(str(error)) from None
    password = new_password(options)

    async def bootstrap() -> None:
        loop = asyncio.get_running_loop()
        await bootstrap_user(
            config,
            options.user,
            password,
            _mechanisms(options),
            iterations=options.iterations,
            disk=SystemDisk(),
            clock=SystemClock(),
            random=SystemRandom(),
            make_worker=lambda name: ThreadWorker(loop, name),
        )

    asyncio.run(bootstrap())
    return _print_added(options)


def _check(options: argparse.Namespace) -> None:
    """Check the options before the user is asked for a password. Raises ``UsageError``."""
    from semel.security.sasl.scram import ITERATIONS_MIN
    from semel.security.sasl.scram_credentials import ITERATIONS_MAX

    if not options.user:
        raise UsageError("the name of a user is not empty")
    if not ITERATIONS_MIN <= options.iterations <= ITERATIONS_MAX:
        raise UsageError(f"--iterations {options.iterations}: between {ITERATIONS_MIN} and {ITERATIONS_MAX} are taken")


def _mechanisms(options: argparse.Namespace) -> list[ScramMechanism]:
    from semel.security.sasl import scram

    return [scram.MECHANISMS[name.upper()] for name in dict.fromkeys(options.mechanism or MECHANISMS)]


def _print_added(options: argparse.Namespace) -> int:
    names = [mechanism.name.replace("_", "-") for mechanism in _mechanisms(options)]
    print_facts({"user": options.user, "mechanisms": names}, as_json=options.json)
    return Exit.OK
