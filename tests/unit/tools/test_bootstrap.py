"""An environment with everything will do for the demo; one with the demo's packages will not do for development."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import bootstrap


@pytest.mark.parametrize(
    ("built_with", "wanted", "is_enough"),
    [("dev", "dev", True), ("dev", "spark", True), ("spark", "spark", True), ("spark", "dev", False)],
)
def test_what_is_there_is_not_installed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built_with: str, wanted: str, is_enough: bool
) -> None:
    monkeypatch.setattr(bootstrap, "VENV", tmp_path)
    monkeypatch.setattr(bootstrap, "STAMP", tmp_path / "stamp")
    assert not bootstrap.up_to_date(wanted)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    (tmp_path / "stamp").write_text(bootstrap.stamp_of(built_with))
    assert bootstrap.up_to_date(wanted) == is_enough
