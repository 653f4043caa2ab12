"""The ways in which the host of a broker dies."""

from __future__ import annotations

from random import Random

from semel.testing.virtual.host import VirtualHost

WAYS = 4


def kill_host(host: VirtualHost, way: int, random: Random, *, operations_max: int) -> None:
    """At once, or in one of the next ``operations_max`` disk operations; the process alone, or with the power."""
    match way:
        case 0:
            host.kill()
        case 1:
            host.cut_power()
        case 2:
            host.cut_power_in_disk_operation(random.randint(1, operations_max))
        case 3:
            host.kill_in_disk_operation(random.randint(1, operations_max))
        case _:
            raise AssertionError(way)
