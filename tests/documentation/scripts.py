"""The Python blocks of one document, run one after the other with the names of those before.

``await`` may stand at the top. A block with tests in it is a file that pytest runs. A block that never ends is ended
when its ``until`` is true, and fails if that takes too long.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, Final

from semel.errors import SemelError
from tests.documentation import cast
from tests.documentation.blocks import ROOT, Block
from tests.documentation.console import in_this_place
from tools.patience import SPARK_PATIENCE_S

# The same with less to do: tests/clients/own proves such an application under every scenario.
_ONE_SCENARIO: Final = "scenarios=[exactly_once.killed(ApiKey.END_TXN, exactly_once.Phase.BEFORE)]"
SHORTENED: Final = {"    exactly_once.prove(run, ": f"    exactly_once.prove(run, {_ONE_SCENARIO}, "}

# A reader's machine joins a group within five seconds; one that runs all tests may not.
PATIENT: Final = {"while records := consumer.poll(5_000):": "while records := patient_poll(consumer):"}


class Scripts:
    def __init__(self, folder: Path, addresses: Mapping[str, str], names: Mapping[str, Any]) -> None:
        self._folder = folder
        self._addresses = addresses
        self._output = io.StringIO()
        self.names = {**vars(cast), "__name__": "__document__", "printed": self._printed, **names}

    def run(self, block: Block) -> None:
        text = in_this_place(f"{block.given}\n{block.text}", self._folder, self._addresses)
        for hasty, patient in PATIENT.items():
            text = text.replace(hasty, patient)
        self.names["servers"] = self._addresses["127.0.0.1:9092"]
        if "\ndef test_" in text:
            self._run_tests(text, block)
            return
        names = self.names if block.alone is None else {"__name__": "__main__"}
        code = compile(text, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with redirect_stdout(self._output), _raising(block):
            if code.co_flags & inspect.CO_COROUTINE:
                asyncio.run(self._run_coroutine(code, block))
            else:
                exec(code, names)
                if block.until is not None:
                    _wait(self._condition(block.until), block)

    def _printed(self, words: str) -> bool:
        return words in self._output.getvalue()

    def _run_tests(self, text: str, block: Block) -> None:
        file = self._folder / f"test_line_{block.line}.py"
        for long, short in SHORTENED.items():
            text = text.replace(long, short)
        file.write_text(f"from semel.wire.apis import ApiKey\nfrom tests.documentation.cast import *\n{text}")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(self._folder)]
        path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT))))
        environment = {**os.environ, "PYTHONPATH": path}
        done = subprocess.run([*command, str(file)], cwd=self._folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{block}:\n{done.stdout}{done.stderr}"

    async def _run_coroutine(self, code: Any, block: Block) -> None:
        task = asyncio.ensure_future(eval(code, self.names))
        if block.until is None:
            await asyncio.wait_for(task, SPARK_PATIENCE_S)
            return
        is_done = self._condition(block.until)
        started = time.monotonic()
        while not is_done():
            assert time.monotonic() - started < SPARK_PATIENCE_S, f"{block}: never came to {block.until}"
            if task.done():
                task.result()
                raise AssertionError(f"{block}: it ended, and not {block.until}")
            await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def _condition(self, until: str) -> Callable[[], bool]:
        return lambda: bool(eval(until, self.names))


@contextmanager
def _raising(block: Block) -> Iterator[None]:
    """Lets through what the block says that it raises, and nothing else."""
    try:
        yield
    except SemelError as error:
        if block.raises is None or block.raises not in str(error):
            raise
    else:
        assert block.raises is None, f"{block}: it raised nothing"


def _wait(is_done: Callable[[], bool], block: Block) -> None:
    started = time.monotonic()
    while not is_done():
        assert time.monotonic() - started < SPARK_PATIENCE_S, f"{block}: never came to {block.until}"
        time.sleep(0.1)
