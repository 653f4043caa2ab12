"""The fetched records of a consumer, from which ``poll`` and iteration take, without waiting and without fetching.

The law: the position moves past the records that are returned, and past nothing else.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING, Any, TypeVar

from semel.client.arguments import as_max_records
from semel.client.arrow_extra import arrow_module
from semel.client.deserializers import Deserializers
from semel.client.drivers.runtime import ClientRuntime
from semel.client.group_session import GroupSession
from semel.client.machine.consumer.consumer import ConsumerMachine
from semel.client.values import ConsumerRecord
from semel.types import INT32_MAX

if TYPE_CHECKING:
    import pyarrow as pa


Taken = TypeVar("Taken", bound=Sized)
"""What one ``poll`` returns: a list of records, or a table."""


class RecordBuffer:
    def __init__(
        self,
        runtime: ClientRuntime[ConsumerMachine],
        group_session: GroupSession,
        deserializers: Deserializers,
        *,
        max_poll_records: int,
    ) -> None:
        self._runtime = runtime
        self._machine = runtime.machine
        self._guard = runtime.guard
        self._group_session = group_session
        self._deserializers = deserializers
        self._max_poll_records = max_poll_records

    def take(self, max_records: int | None = None) -> list[ConsumerRecord[Any, Any]]:
        """Return the next records; none if a callback has to run first."""
        count = self._max_poll_records if max_records is None else as_max_records(max_records)
        with self._guard:
            is_news = self._group_session.polled()
            records: list[ConsumerRecord[Any, Any]] = self._machine.take(count)
            if self._deserializers.exist:
                records = self._deserializers.applied(records, self._machine.put_back)
        if is_news:
            self._runtime.wake()
        return records

    def take_decoded(self) -> ConsumerRecord[Any, Any] | None:
        """Return what ``poll(max_records=1)`` would return, if that is already decoded; else ``None``.

        A fetch brings many records, and they are decoded some at a time; so for iteration this is nearly always enough.
        The position moves with every single record.
        """
        driver = self._runtime.driver
        if driver is None or self._runtime.is_closed or self._group_session.is_in_callback:
            return None
        driver.check_process()
        with self._guard:
            is_news = self._group_session.polled()
            record: ConsumerRecord[Any, Any] | None = self._machine.take_decoded()
            if record is not None and self._deserializers.exist:
                (record,) = self._deserializers.applied([record], self._machine.put_back)
        if is_news:
            self._runtime.wake()
        return record

    def take_table(self, max_records: int | None = None) -> pa.Table:
        """Return the next records as a table."""
        tables = arrow_module("tables", "poll_arrow")
        count = INT32_MAX if max_records is None else as_max_records(max_records)
        with self._guard:
            is_news = self._group_session.polled()
            taken = self._machine.take_rows(count, tables.decode_rows)
        if is_news:
            self._runtime.wake()
        return tables.as_table(taken)
