"""What a dead-letter topic gets of a row that a table did not take."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any, NoReturn

from semel.spark.sinks.refused_rows import refused_row


def no_constant(name: str) -> NoReturn:
    raise AssertionError(f"{name} is no JSON")


def test_a_row_is_json_whatever_its_values() -> None:
    values: dict[str, Any] = {
        "name": "ann",
        "count": 3,
        "ratio": 0.5,
        "is_paid": True,
        "body": b"\x00\xff",
        "gone": None,
        "total": Decimal("1.20"),
        "day": date(2026, 1, 31),
        "nothing": float("nan"),
        "most": float("inf"),
    }
    row = refused_row("sqlite:rows", "too many", values)
    assert json.loads(row.value(2**20) or b"", parse_constant=no_constant) == {
        **values,
        "body": "00ff",
        "total": "1.20",
        "day": "2026-01-31",
        "nothing": "nan",
        "most": "inf",
    }
