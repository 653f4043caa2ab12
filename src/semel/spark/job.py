"""A pipeline as a TOML file: sources, SQL, a sink and settings. For users who write SQL and no Python.

servers = "127.0.0.1:9092"
transactional_id = "totals-job"
checkpoint = "checkpoints/totals"
sql = "SELECT key, value FROM orders"       # or sql_file = "totals.sql", beside this file
client_config = "client.properties"         # optional: TLS and SASL of all sources and the sink, with Kafka's names
output_mode = "append"                      # optional, as are query_name, writers, attempts, outage_timeout_ms
trigger = { processingTime = "5 seconds" }  # optional: what DataStreamWriter.trigger takes

[sources.orders]                            # a view of this name; options are those of the source
subscribe = "orders"
kafka.group.id = "totals-job"               # else the transactional id
watermark = "2 hours"                       # optional: how late a record's timestamp may be

[sink]
topic = "totals"                            # else a column topic has the topic of each row
dead_letter_topic = "totals-dead"           # optional
compression_type = "zstd"                   # anything else is a setting of the producer

[[also]]                                    # optional: a sink beside the topic; several, if there are several
kind = "sqlite"                             # or postgres, files, delta, iceberg; the rest is what the class takes
path = "totals.db"
table = "totals"

[spark]                                     # optional: settings of the session
spark.sql.shuffle.partitions = 2
"""

from __future__ import annotations

import difflib
import inspect
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from pyspark.sql import SparkSession

from semel.settings import parse_properties
from semel.spark import sinks
from semel.spark.pipelines import Pipeline, pipeline, register
from semel.spark.refusals import Refused
from semel.spark.sinks.protocol import BatchSink
from semel.spark.source.options import PREFIX

_REQUIRED: Final = ("servers", "transactional_id", "checkpoint", "sources")
_NUMBERS: Final = ("writers", "attempts", "outage_timeout_ms")
_OF_PIPELINE: Final = ("output_mode", "trigger", "query_name", *_NUMBERS)
_KNOWN: Final = (*_REQUIRED, *_OF_PIPELINE, "sql", "sql_file", "client_config", "sink", "also", "spark")
_SINKS: Final = {"delta": "Delta", "files": "Files", "iceberg": "Iceberg", "postgres": "Postgres", "sqlite": "SQLite"}
_SERVERS: Final = "kafka.bootstrap.servers"
_GROUP: Final = "kafka.group.id"
_WATERMARK: Final = "watermark"


class JobError(ValueError):
    """The file is not a valid pipeline. The message names the entry and the rule."""


@dataclass(frozen=True, slots=True)
class PipelineJob:
    servers: str
    transactional_id: str
    checkpoint: str
    sql: str
    sources: Mapping[str, Mapping[str, str]] = field(repr=False)
    """The options of each source, by the name of its view. These and the sink's settings may have passwords."""
    watermarks: Mapping[str, str]
    """How late the records of a source may be, by the name of its view."""
    sink: Mapping[str, Any] = field(repr=False)
    also: Sequence[BatchSink]
    options: Mapping[str, Any]
    spark: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> PipelineJob:
        """Read a pipeline file. Raises ``JobError``."""
        try:
            with path.open("rb") as file:
                said = tomllib.load(file)
        except OSError as error:
            raise JobError(f"{path} cannot be read: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise JobError(f"{path} is no TOML: {error}") from None
        return cls.parse(said, folder=path.parent)

    @classmethod
    def parse(cls, said: Mapping[str, Any], *, folder: Path) -> PipelineJob:
        """Make a job of the tables of a TOML file. ``sql_file`` and ``client_config`` are relative to ``folder``.

        Raises ``JobError``.
        """
        for name in said:
            if name not in _KNOWN:
                near = difflib.get_close_matches(name, _KNOWN, n=1)
                raise JobError(f"there is no entry {name!r}" + "".join(f"; did you mean {match}?" for match in near))
        for name in _REQUIRED:
            if name not in said:
                raise JobError(f"{name} is missing")
        if "sink" not in said and "also" not in said:
            raise JobError("sink is missing: [sink] with topic = ..., or [[also]] with kind = ...")
        servers, transactional_id = _text(said, "servers"), _text(said, "transactional_id")
        tables = _table(said, "sources")
        if not tables:
            raise JobError("sources names no source: [sources.orders] with subscribe = ... is one")
        shared = _client_config(said, folder)
        sources, watermarks = {}, {}
        for view in tables:
            table = _table(tables, view, within="sources.")
            if _WATERMARK in table:
                watermarks[view] = _text(table, _WATERMARK, within=f"sources.{view}.")
            options = {name: _option(value) for name, value in _flat(table) if name != _WATERMARK}
            sources[view] = {_SERVERS: servers, _GROUP: transactional_id, **shared, **options}
        return cls(
            servers=servers,
            transactional_id=transactional_id,
            checkpoint=_text(said, "checkpoint"),
            sql=_sql(said, folder),
            sources=sources,
            watermarks=watermarks,
            sink={
                name.removeprefix(PREFIX).replace(".", "_"): value
                for name, value in (*shared.items(), *_flat(_table(said, "sink")))
            },
            also=_also(said),
            options=_options(said),
            spark={name: _option(value) for name, value in _flat(_table(said, "spark"))},
        )

    def available_now(self) -> PipelineJob:
        """Return the same job with the trigger ``availableNow``: it reads what is there and stops."""
        return replace(self, options={**self.options, "trigger": {"availableNow": True}})

    def session(self) -> SparkSession:
        """Return a Spark session with the settings of the file. Other settings are those of ``spark-submit``."""
        builder = SparkSession.builder.appName(self.transactional_id)
        for name, value in self.spark.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()

    def pipeline(self, spark: SparkSession) -> Pipeline:
        """Create a view for each source, and return a pipeline over the query. Nothing runs yet."""
        register(spark)
        for view, options in self.sources.items():
            rows = spark.readStream.format("semel").options(**options).load()
            if view in self.watermarks:
                rows = rows.withWatermark("timestamp", self.watermarks[view])
            rows.createOrReplaceTempView(view)
        return pipeline(
            spark.sql(self.sql),
            servers=self.servers,
            transactional_id=self.transactional_id,
            checkpoint=self.checkpoint,
            also=self.also,
            **self.options,
            **self.sink,
        )


def _options(said: Mapping[str, Any]) -> dict[str, Any]:
    for name in _NUMBERS:
        if not isinstance(said.get(name, 0), int) or isinstance(said.get(name), bool):
            raise JobError(f"{name} is {said[name]!r}; it is a whole number")
    return {name: said[name] for name in _OF_PIPELINE if name in said}


def _also(said: Mapping[str, Any]) -> list[BatchSink]:
    tables = said.get("also", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise JobError(f"also is {tables!r}; it is a list of tables: [[also]]")
    return [_sink(table) for table in tables]


def _sink(table: Mapping[str, Any]) -> BatchSink:
    kind = table.get("kind")
    if kind not in _SINKS:
        raise JobError(f"also has the kind {kind!r}; it is one of {', '.join(_SINKS)}")
    try:
        make = getattr(sinks, _SINKS[kind])
    except ImportError as error:
        raise JobError(f"also, {kind}: {error}") from None
    known = [name for name in inspect.signature(make).parameters if name != "reached"]
    for name in table:
        if name != "kind" and name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise JobError(f"{kind} has no entry {name!r}" + "".join(f"; did you mean {match}?" for match in near))
    try:
        return cast(BatchSink, make(**{name: value for name, value in table.items() if name != "kind"}))
    except (TypeError, Refused) as error:
        raise JobError(f"also, {kind}: {error}") from None


def _sql(said: Mapping[str, Any], folder: Path) -> str:
    if ("sql" in said) == ("sql_file" in said):
        raise JobError("set exactly one of sql and sql_file")
    if "sql" in said:
        return _text(said, "sql")
    path = folder / _text(said, "sql_file")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"sql_file {path} cannot be read: {error}") from None


def _client_config(said: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Read the file of client settings, as options of the source. A separate file keeps passwords out of the pipeline
    file, which is kept with the program."""
    if "client_config" not in said:
        return {}
    path = folder / _text(said, "client_config")
    try:
        settings = parse_properties(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"client_config {path} cannot be read: {error}") from None
    return {f"{PREFIX}{name}": value for name, value in settings.items()}


def _text(said: Mapping[str, Any], name: str, *, within: str = "") -> str:
    value = said[name]
    if not isinstance(value, str) or not value.strip():
        raise JobError(f"{within}{name} is {value!r}; it is a text")
    return value


def _table(said: Mapping[str, Any], name: str, *, within: str = "") -> Mapping[str, Any]:
    value = said.get(name, {})
    if not isinstance(value, dict):
        raise JobError(f"{within}{name} is {value!r}; it is a table: [{within}{name}]")
    return value


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the entries of a table and its subtables under names with dots. In TOML ``kafka.group.id`` without quotes
    is a table within a table."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _option(value: object) -> str:
    """Return a value as the text that Spark has for options."""
    return str(value).lower() if isinstance(value, bool) else str(value)
