# mypy: ignore-errors
"""FastStream: copies every value of ``input`` to ``output``. An offset is committed after its value is written."""

import asyncio
import os

from faststream import AckPolicy, FastStream
from faststream.kafka import KafkaBroker

broker = KafkaBroker(os.environ["BOOTSTRAP_SERVERS"])
app = FastStream(broker)


@broker.subscriber("input", group_id="faststream", auto_offset_reset="earliest", ack_policy=AckPolicy.NACK_ON_ERROR)
@broker.publisher("output")
async def copy(value: str) -> str:
    return value


if __name__ == "__main__":
    asyncio.run(app.run())
