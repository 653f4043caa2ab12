"""What ``pip install semel-*.whl`` gives: the whole package, and a command that works without a clone."""

from __future__ import annotations

import re
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import semel
from tests.packaging.built import ROOT, build_sdist, build_wheel, clean_environment, install

pytestmark = pytest.mark.xdist_group("wheel")


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_sdist(tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(sdist, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def commands(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(wheel, tmp_path_factory.mktemp("environment"))


def run(commands: Path, *words: str, given: str = "") -> str:
    done = subprocess.run(
        [str(commands / words[0]), *words[1:]],
        input=given,
        capture_output=True,
        text=True,
        cwd=commands.parent,
        env=clean_environment(),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def serving(commands: Path) -> Iterator[str]:
    process = subprocess.Popen(
        [str(commands / "semel"), "serve", "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=commands.parent,
        env=clean_environment(),
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        ready = re.match(r"semel ready on (127\.0\.0\.1:\d+),", line)
        assert ready is not None, line
        yield ready[1]
    finally:
        process.kill()
        process.communicate()


def test_the_version_is_said_in_one_place_and_has_a_part_of_the_changelog(sdist: Path, wheel: Path) -> None:
    assert sdist.name == f"semel-{semel.__version__}.tar.gz"
    assert wheel.name == f"semel-{semel.__version__}-py3-none-any.whl"
    newest = re.search(r"^## (\S+),", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == semel.__version__


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    source = ROOT / "src"
    expected = {
        path.relative_to(source).as_posix()
        for path in (source / "semel").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
        assert {name: archive.read(name) for name in found} == {name: (source / name).read_bytes() for name in expected}
    assert "semel/py.typed" in found


def test_an_sdist_has_what_a_reader_looks_for(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "examples/payments.py"}
    assert wanted - names == set()


def test_an_installed_command_serves_writes_and_reads_without_the_clone(commands: Path) -> None:
    assert run(commands, "semel", "--version") == f"semel {semel.__version__}\n"
    where = run(commands, "python", "-c", "import semel; print(semel.__file__)")
    assert Path(where.strip()).is_relative_to(commands.parent)
    with serving(commands) as servers:
        at = ("--bootstrap-server", servers)
        run(commands, "semel", "produce", "orders", "--key", "ann", *at, given="three apples\n")
        read = run(commands, "semel", "consume", "orders", "--from", "beginning", "--format", "key-value", *at)
    assert read == "ann\tthree apples\n"


def test_the_demo_says_what_it_needs(commands: Path, tmp_path: Path) -> None:
    """As in an environment that was made without the extra."""
    program = "import sys; sys.modules['pyspark'] = None; from semel.cli.main import main; sys.exit(main(['demo']))"
    done = subprocess.run([commands / "python", "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    said = r"semel: the demo needs Spark, and \S+ is not here: pip install 'semel\[spark\]'\n"
    assert re.fullmatch(said, done.stderr), done.stderr
