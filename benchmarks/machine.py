"""Which machine a figure is from, and whether it had anything else to do."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from tools.kafka_jars import Unavailable, java


def describe() -> dict[str, object]:
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": sys.version.split()[0],
        "librdkafka": _librdkafka(),
        "uvloop": version("uvloop"),
        "java": _java(),
        "load_average_before": round(os.getloadavg()[0], 2),
    }


def sentence(machine: dict[str, object]) -> str:
    memory = int(str(machine["memory_bytes"])) / 2**30
    hardware = f"{machine['cores']} cores ({machine['processor']}), {memory:.0f} GB"
    return f"{hardware}, {machine['system']}, Python {machine['python']}"


def busy_elsewhere() -> str | None:
    """A warning when other work is being done here: every figure would be too low, and the ratios unsteady."""
    load = os.getloadavg()[0]
    if load > 0.7:
        return f"the load average is {load:.1f}: this machine has other things to do, and the figures will show it"
    return None


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _librdkafka() -> str:
    import confluent_kafka

    return str(confluent_kafka.libversion()[0])


def _java() -> str | None:
    try:
        printed = subprocess.run([java(), "-version"], capture_output=True, text=True).stderr
    except Unavailable:
        return None
    return printed.splitlines()[0] if printed else None
