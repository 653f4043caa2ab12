"""A task's process after ``prepare_process``: what it frees stays its own."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from tools.patience import PATIENCE_S

FAULTS = """
import resource
from semel.spark.task_process import prepare_process

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def work():
    return [bytearray(8 * 2**20) for _ in range(4)]

prepare_process()
work()
before = faults()
for _ in range(5):
    work()
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are not told anything")
def test_buffers_of_megabytes_are_not_got_from_the_kernel_again() -> None:
    told = subprocess.run(
        [sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert int(told.stdout) < 2000, "a page is 4 KB: to get each of them again would be 40,000 faults"
