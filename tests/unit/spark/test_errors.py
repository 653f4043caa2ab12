"""What reaches the user of an error: one line with its cause, out of thousands of characters of Java and Python."""

from __future__ import annotations

import pytest

from semel.spark.batch import next_timeout_ms
from semel.spark.errors import PipelineError, sentence_of
from semel.spark.refusals import Refused

CHAIN = """[STREAM_FAILED] Query [id = 1] terminated with exception: An exception was raised by the Python Proxy
Traceback (most recent call last):
  File "batch.py", line 3, in _run
semel.errors.ProducerFenced: PRODUCER_FENCED: the epoch is old

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "batch.py", line 9, in _run
semel.spark.errors.Superseded: another pipeline has taken over group 'jobs'. Give this one a group of its own
\tat py4j.Protocol.getReturnValue(Protocol.java:476)
"""

TASK = """Job aborted due to stage failure: Task 0 failed 1 times
  File "row_partitioning.py", line 90, in _divert
semel.spark.sink.row_partitioning.BadRow: the row with key b'7' cannot be written: there is no topic 'nowhere'
\tat org.apache.spark.api.python.BasePythonRunner.run(PythonRunner.scala:572)
"""


OF_THE_USER = """An error occurred while calling o6094.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Lost task 0.0
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
  File "job.py", line 7, in ratio
    return 1 / row
ZeroDivisionError: division by zero

\tat org.apache.spark.api.python.BasePythonRunner.run(PythonRunner.scala:572)
"""


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        pytest.param(
            RuntimeError(CHAIN),
            "another pipeline has taken over group 'jobs'. Give this one a group of its own",
            id="what the pipeline says, not what caused it",
        ),
        pytest.param(
            RuntimeError(TASK),
            "the row with key b'7' cannot be written: there is no topic 'nowhere'",
            id="an error of a task",
        ),
        pytest.param(
            RuntimeError("x\nsemel.errors.TimedOut: no answer in 600 s\n\tat java"),
            "no answer in 600 s",
            id="a client's",
        ),
        pytest.param(
            RuntimeError(OF_THE_USER), "ZeroDivisionError: division by zero", id="an error of the user's code"
        ),
        pytest.param(
            RuntimeError(
                "Lost task\nsemel.settings.SettingError: ssl.truststore.location=/x cannot be used\n\tat java"
            ),
            "ssl.truststore.location=/x cannot be used",
            id="a setting that a worker cannot use",
        ),
        pytest.param(Refused("writers=9: ask for fewer"), "writers=9: ask for fewer", id="raised in this process"),
        pytest.param(
            RuntimeError("\n  [PARSE_SYNTAX_ERROR] near 'FRM'\nat"), "[PARSE_SYNTAX_ERROR] near 'FRM'", id="Spark"
        ),
        pytest.param(PipelineError(), "PipelineError", id="no words"),
    ],
)
def test_an_error_is_told_in_one_line(error: Exception, sentence: str) -> None:
    assert sentence_of(error) == sentence


def test_the_next_attempt_of_a_batch_that_took_too_long_has_twice_the_time_up_to_the_broker_s_maximum() -> None:
    assert next_timeout_ms(310_000, 300_000, 900_000) == 620_000
    assert next_timeout_ms(620_000, 600_000, 900_000) == 900_000
    assert next_timeout_ms(950_000, 900_000, 900_000) == 900_000
    assert next_timeout_ms(10, 1_000_000, 900_000) == 1_000_000
