"""``packaging/Dockerfile``, for what can be known without a container: what it copies, and what its commands do."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.packaging.built import ROOT, clean_environment
from tools.ports import free_port

DOCKERFILE = ROOT / "packaging" / "Dockerfile"


def instructions() -> list[tuple[str, str]]:
    """Each instruction of the last stage and those before it, with its arguments in one line."""
    text = re.sub(r"\\\n\s*", "", DOCKERFILE.read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines)]


def last(name: str) -> str:
    return [rest for found, rest in instructions() if found == name][-1]


def command(name: str) -> list[str]:
    """The words of an instruction in the form that starts no shell."""
    words: list[str] = json.loads(last(name)[last(name).index("[") :])
    return words


def test_the_broker_is_not_root_and_its_data_is_on_a_volume() -> None:
    names = [name for name, _ in instructions()]
    assert int(last("USER").partition(":")[0]) >= 1000
    assert names.index("USER") > max(at for at, name in enumerate(names) if name == "RUN")
    words = command("CMD")
    assert Path(words[words.index("--data-dir") + 1]).is_relative_to(last("VOLUME"))


def test_what_is_copied_is_enough_to_build_the_wheel(tmp_path: Path) -> None:
    copies = [rest.split() for name, rest in instructions() if name == "COPY" and not rest.startswith("--from")]
    for path in (path for *paths, _ in copies for path in paths):
        source = ROOT / path
        if source.is_dir():
            shutil.copytree(source, tmp_path / path, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(source, tmp_path / path)
    program = "import sys; from setuptools import build_meta; build_meta.prepare_metadata_for_build_wheel(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_file_of_what_is_not_sent_lets_through_what_is_copied() -> None:
    lines = (ROOT / "packaging" / "Dockerfile.dockerignore").read_text().split()
    copied = {
        path
        for name, rest in instructions()
        if name == "COPY" and not rest.startswith("--from")
        for path in rest.split()[:-1]
    }
    assert lines[0] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == copied


def test_a_broker_that_serves_is_healthy_and_one_that_does_not_is_not(tmp_path: Path) -> None:
    port = free_port()
    places = {"/var/lib/semel/data": str(tmp_path), "0.0.0.0:9092": f"127.0.0.1:{port}"}
    places["localhost:9092"] = f"localhost:{port}"
    semel = [sys.executable, "-m", *command("ENTRYPOINT")]
    (variable, servers) = last("ENV").split("=")
    environment = {**os.environ, variable: servers.replace("9092", str(port))}
    check = [*semel, *command("HEALTHCHECK")[1:]]
    serve = [*semel, *(places.get(word, word) for word in command("CMD"))]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("semel ready on ")
            assert subprocess.run(check, env=environment, capture_output=True).returncode == 0
        finally:
            process.kill()
    assert subprocess.run(check, env=environment, capture_output=True).returncode == 4
