"""Kafka's own producer as a process, with the security that its settings say: ``java/SecuredProducer.java``."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tools.kafka_jars import KAFKA_4, jars_of, java

_PROGRAM = Path(__file__).parent / "java" / "SecuredProducer.java"


def java_login(mechanism: str, password: str) -> dict[str, str]:
    """Settings of a Java client that is alice."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    login = f"org.apache.kafka.common.security.{module}"
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{login} required username="alice" password="{password}";',
    }


def write_properties(file: Path, settings: Mapping[str, str]) -> None:
    lines = "".join(f"{name}={value}\n" for name, value in settings.items())
    # Files of properties are Latin-1, with anything else as \\uXXXX.
    file.write_bytes(lines.encode("ascii", "backslashreplace").replace(b"\\x", b"\\u00"))


class JavaProducer:
    """Ended with its ``with`` block, if it has not ended by itself."""

    def __init__(self, folder: Path, settings: Mapping[str, str], *work: str, options: Sequence[str] = ()) -> None:
        properties = folder / "producer.properties"
        write_properties(properties, settings)
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        command = [java(), "-Xmx128m", quiet, *options, "-cp", f"{jars_of(KAFKA_4)}/*", str(_PROGRAM)]
        self._errors = folder / "producer.errors.txt"
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [*command, str(properties), *work],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def __enter__(self) -> JavaProducer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def line(self) -> str:
        """The next line that it prints; with its errors, if it ends before."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline().rstrip()
        assert line, f"it has ended with {self._process.wait()}: {self._errors.read_text()[-2000:]}"
        return line

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
