"""The SQL that moves staged rows into a table: append, upsert by keys, delete by a column. For SQLite and Postgres.

Both have ``INSERT ... ON CONFLICT DO UPDATE``, so the statements are the same; what differs is how rows get into the
staging table, and how a transaction is begun.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pyspark.sql import types as spark_types

from semel.spark.refusals import Refused

Mode: TypeAlias = Literal["append", "upsert"]


@dataclass(frozen=True, slots=True)
class Merge:
    """How the rows of a batch change the table."""

    mode: Mode = "append"
    keys: tuple[str, ...] = ()
    delete_column: str | None = None
    """A column of the rows, but not of the table: a row in which it is true deletes the table's row with equal keys."""
    latest_by: str | None = None
    """A column by which one of several rows with equal keys in a batch is chosen: the row in which it is greatest."""

    def __post_init__(self) -> None:
        if self.mode not in ("append", "upsert"):
            raise Refused(f"mode={self.mode!r}; it is 'append' or 'upsert'")
        if self.mode == "upsert" and not self.keys:
            raise Refused("mode='upsert' without keys=: say which columns tell rows apart")
        if self.mode == "append":
            for name, value in (
                ("keys", self.keys),
                ("delete_column", self.delete_column),
                ("latest_by", self.latest_by),
            ):
                if value:
                    raise Refused(f"{name}={value!r} is for mode='upsert'; this is mode='append'")

    def table_columns(self, columns: Sequence[str], in_table: Iterable[str]) -> list[str]:
        """Return those columns of the rows that are written to the table.

        Raises ``Refused`` if the table lacks one of them, or if the rows lack a column that this merge needs.
        """
        there = set(in_table)
        left_out = {self.delete_column} if self.latest_by in there else {self.delete_column, self.latest_by}
        written = [name for name in columns if name not in left_out]
        missing = [name for name in written if name not in there]
        if missing:
            raise Refused(
                f"the table has no column {', '.join(map(repr, missing))}; it has {', '.join(sorted(there))}. Add it, "
                "or say with columns= what is to be written"
            )
        unknown = [name for name in (*self.keys, self.delete_column, self.latest_by) if name and name not in columns]
        if unknown:
            raise Refused(f"the rows have no column {', '.join(map(repr, unknown))}; they have {', '.join(columns)}")
        return written

    def check_unique(self, unique: Iterable[frozenset[str]], table: str) -> None:
        """Raises ``Refused`` if an upsert has no unique index over its keys. ``unique`` are the columns of each unique
        index of the table."""
        if self.mode == "upsert" and frozenset(self.keys) not in set(unique):
            raise Refused(
                f"{table} has no primary key or unique index over {', '.join(self.keys)}, which mode='upsert' needs: "
                f"CREATE UNIQUE INDEX ON {table} ({_listed(self.keys)})"
            )

    # SQL over a staging table

    def null_keys(self, staging: str) -> str:
        """Return a query that finds a row with a null key: a unique index does not treat null keys as equal."""
        return f"SELECT 1 FROM {staging} WHERE {' OR '.join(f'{quoted(key)} IS NULL' for key in self.keys)} LIMIT 1"

    def repeated_keys(self, staging: str, where: str = "true") -> str:
        """Return a query for keys that several rows have. ``where`` is a condition on the rows of ``staged``."""
        keys = _listed(self.keys)
        return f"SELECT {keys} FROM {staging} AS staged WHERE {where} GROUP BY {keys} HAVING count(*) > 1 LIMIT 1"

    def named_keys(self, values: Sequence[object]) -> str:
        """Return the keys of a row for a message, such as ``customer='Ann', window=3``."""
        return ", ".join(f"{key}={value!r}" for key, value in zip(self.keys, values, strict=True))

    def statements(
        self,
        staging: str,
        table: str,
        columns: Sequence[str],
        types: Mapping[str, str] | None = None,
        *,
        where: str = "true",
        among: str = "true",
        ties: str | None = None,
    ) -> list[str]:
        """Return the statements that move the staged rows into the table, to be executed in this order.

        ``types`` are the types of the table's columns, if staged values must be cast to them. ``where`` is a condition
        on the rows of ``staged``. ``among`` and ``ties`` are those of ``one_for_each_key``.
        """

        def cast(name: str) -> str:
            return f"staged.{quoted(name)}" + ("" if types is None else f"::{types[name]}")

        insert = f"INSERT INTO {table} ({_listed(columns)}) SELECT {', '.join(map(cast, columns))} FROM"
        if self.mode == "append":
            return [f"{insert} {staging} AS staged WHERE {where}"]
        rows = self.one_for_each_key(staging, among, ties)
        others = [name for name in columns if name not in self.keys]
        changes = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in others)
        action = f"DO UPDATE SET {changes}" if changes else "DO NOTHING"
        kept = "true" if self.delete_column is None else f"NOT coalesce({quoted(self.delete_column)}, false)"
        upsert = f"{insert} {rows} AS staged WHERE {kept} AND {where} ON CONFLICT ({_listed(self.keys)}) {action}"
        if self.delete_column is None:
            return [upsert]
        same = " AND ".join(f"{cast(key)} = {table}.{quoted(key)}" for key in self.keys)
        gone = f"staged.{quoted(self.delete_column)}"
        matching = f"SELECT 1 FROM {rows} AS staged WHERE {gone} AND {same} AND {where}"
        return [f"DELETE FROM {table} WHERE EXISTS ({matching})", upsert]

    def one_for_each_key(self, staging: str, among: str, ties: str | None) -> str:
        """Return the rows that meet a condition, as a table in SQL; of those with equal keys the latest one.

        ``ties`` is a column with a number of each row: with it, every statement finds the same row of two that are as
        late.
        """
        if self.latest_by is None:
            return staging
        # Null is not the greatest value, as it would be by default in Postgres.
        order = f"{quoted(self.latest_by)} DESC NULLS LAST" + ("" if ties is None else f", {ties}")
        rank = f"row_number() OVER (PARTITION BY {_listed(self.keys)} ORDER BY {order})"
        ranked = f"SELECT *, {rank} AS semel_rank FROM {staging} AS staged WHERE {among}"
        return f"(SELECT * FROM ({ranked}) AS ranked WHERE semel_rank = 1)"


def create_table(
    table: str, schema: spark_types.StructType, types: dict[type[spark_types.DataType], str], merge: Merge
) -> str:
    """Return the statement that creates a table for such rows. Raises ``Refused`` for a type that ``types`` lacks."""
    columns = []
    for field in schema.fields:
        if type(field.dataType) not in types:
            raise Refused(
                f"column {field.name!r} is {field.dataType.simpleString()}, which no column of a table takes: write it "
                f"as text, with to_json({field.name}) in columns="
            )
        if field.name != merge.delete_column:
            columns.append(f"{quoted(field.name)} {types[type(field.dataType)]}")
    if merge.keys:
        columns.append(f"PRIMARY KEY ({', '.join(map(quoted, merge.keys))})")
    return f"CREATE TABLE {quoted(table)} ({', '.join(columns)})"


def quoted(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))
