"""Settings of Apache Kafka for parts that Semel does not have: they are accepted and have no effect.

Kafka's own ``server.properties`` sets some of them, and automation alters others while brokers run. They are validated,
stored and described like any other setting. When one is set, a line in the log says that it has no effect and why. A
setting that guarantees something to clients or to an operator (a throttle, a safeguard) is never ignored: it is
refused.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from semel.settings import AtLeast, Between, Setting, SettingType, Update, Value

logger = logging.getLogger("semel.broker")

_ONE_LOOP: Final = "Semel serves all connections on one event loop and has no such threads"
_KERNEL: Final = "the operating system sizes the buffers of sockets"
_AT_ONCE: Final = "a group's target assignment is computed with the heartbeat that calls for it"


def _ignored(name: str, default: Value | None, why: str, *, running: bool = False, least: int = 1) -> Setting:
    return Setting(
        name=name,
        type=SettingType.INT,
        default=default,
        doc=f"No effect: {why}.",
        rule=AtLeast(least),
        update=Update.CLUSTER_WIDE if running else Update.READ_ONLY,
    )


IGNORED_SETTINGS: Final[tuple[Setting, ...]] = (
    _ignored("num.network.threads", 3, _ONE_LOOP, running=True),
    _ignored("num.io.threads", 8, _ONE_LOOP, running=True),
    _ignored("num.replica.fetchers", 1, _ONE_LOOP, running=True),
    _ignored("background.threads", 10, _ONE_LOOP, running=True),
    _ignored("log.cleaner.threads", 1, _ONE_LOOP, running=True, least=0),
    _ignored("num.recovery.threads.per.data.dir", 2, _ONE_LOOP, running=True),
    _ignored("num.replica.alter.log.dirs.threads", None, _ONE_LOOP),
    _ignored("group.coordinator.threads", 4, _ONE_LOOP),
    _ignored("queued.max.requests", 500, "a client's requests wait in its own connection"),
    _ignored("socket.send.buffer.bytes", 102_400, _KERNEL, least=-1),
    _ignored("socket.receive.buffer.bytes", 102_400, _KERNEL, least=-1),
    Setting(
        name="group.consumer.assignment.interval.ms",
        type=SettingType.INT,
        default=1000,
        doc=f"No effect: {_AT_ONCE}.",
        rule=Between(0, 15_000),
        update=Update.CLUSTER_WIDE,
    ),
    Setting(
        name="sasl.kerberos.min.time.before.relogin",
        type=SettingType.LONG,
        default=60_000,
        doc="No effect: Semel has no Kerberos.",
        rule=AtLeast(0),
        update=Update.CLUSTER_WIDE,
    ),
)

_BY_NAME: Final = {setting.name: setting for setting in IGNORED_SETTINGS}


def note_ignored(texts: Mapping[str, str], before: Mapping[str, str] = MappingProxyType({})) -> None:
    """Log a warning for each of these settings that is set, unless ``before`` has the same value."""
    for name in sorted(_BY_NAME.keys() & texts.keys()):
        if before.get(name) != texts[name]:
            logger.warning("%s=%s is accepted. %s", name, texts[name], _BY_NAME[name].doc)
