"""Where tests are: tests/unit mirrors the packages, and starts neither a broker nor Spark."""

from __future__ import annotations

import ast

from tests.documentation.blocks import ROOT

UNIT = ROOT / "tests" / "unit"
NOT_IN_THE_PACKAGE = frozenset({"tools"})
STARTS_SOMETHING = frozenset(
    {
        "semel.testing.Broker",
        "semel.testing.broker",
        "semel.testing.Cluster",
        "semel.testing.cluster",
        "pyspark.sql.SparkSession",
    }
)


def test_every_folder_of_unit_is_one_of_the_package() -> None:
    folders = {str(path.parent.relative_to(UNIT)) for path in UNIT.rglob("*.py")} - NOT_IN_THE_PACKAGE
    assert [folder for folder in sorted(folders) if not (ROOT / "src" / "semel" / folder).is_dir()] == []


def test_unit_tests_start_neither_a_broker_nor_spark() -> None:
    starting = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted(UNIT.rglob("*.py"))
        for statement in ast.walk(ast.parse(path.read_text()))
        if isinstance(statement, ast.ImportFrom)
        for name in (f"{statement.module}.{alias.name}" for alias in statement.names)
        if name in STARTS_SOMETHING or str(statement.module) in STARTS_SOMETHING
    ]
    assert starting == []


def test_every_folder_of_tests_is_named_in_the_readme() -> None:
    readme = (ROOT / "tests" / "README.md").read_text()
    folders = {path.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").glob("*/**/*.py")}
    assert [folder for folder in sorted(folders) if f"| `{folder}` |" not in readme] == []
