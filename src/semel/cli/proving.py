"""Runs ``semel prove``: reads its files, runs the scenarios, prints the results.

The options are declared in ``semel/cli/commands/prove.py``.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from typing import Any, Final

from semel.cli.exits import Exit, UsageError
from semel.cli.inputs import InputError
from semel.cli.option_values import file_text
from semel.cli.reachability import await_broker
from semel.cli.terminal.output import is_colourful, print_json, say, table
from semel.client.config.common import addresses
from semel.testing.prover.lives import Program
from semel.testing.prover.own_broker import own_broker
from semel.testing.prover.proof import Proof
from semel.testing.prover.proxied_broker import TopicExists, proxied_broker
from semel.testing.prover.records import Record, Value
from semel.testing.prover.trial import ProofBroker, ScenarioOutcome, ScenarioResult

_FAILED: Final = (ScenarioOutcome.WRONG, ScenarioOutcome.NOT_ENDED, ScenarioOutcome.STRUCK_NOTHING)


def run(options: argparse.Namespace) -> int:
    _check(options)
    given, _ = _records("--given", options.given)
    expect, is_json = _records("--expect", options.expect)
    proof = Proof(
        Program(options.command),
        given,
        expect,
        _brokers(options, {*given, *expect}),
        seed=options.seed,
        idle_seconds=options.idle,
        life_seconds_max=options.life,
        as_compared=_canonical if is_json else lambda value: value,
        can_kill_broker=options.bootstrap_server is None,
    )
    try:
        with _quiet_broker():
            results = list(_results(proof, options))
    except TopicExists as error:
        raise UsageError(str(error)) from None
    if options.json:
        print_json({"transactional": proof.is_transactional, "scenarios": [asdict(result) for result in results]})
    else:
        _print_table(results)
        print(_verdict(proof, results))
    return _exit_code(results)


def _results(proof: Proof, options: argparse.Namespace) -> Iterator[ScenarioResult]:
    for number, result in enumerate(proof.run(only=options.scenario), 1):
        if result.outcome is not ScenarioOutcome.NOT_APPLICABLE:
            say(f"{number:3} {result.scenario}: {result.outcome}{f': {result.what}' if result.what else ''}")
        yield result
        if options.first and result.outcome in _FAILED:
            return


@contextmanager
def _quiet_broker() -> Iterator[None]:
    """Turn Semel's log off within this block: what the broker logs while it is killed is not useful."""
    logger = logging.getLogger("semel")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _check(options: argparse.Namespace) -> None:
    if options.partitions < 1:
        raise UsageError(f"--partitions {options.partitions}: it is at least 1")
    for name in ("idle", "life"):
        if getattr(options, name) <= 0:
            raise UsageError(f"--{name} {getattr(options, name):g}: it is more than 0")
    if shutil.which(options.command[0]) is None:
        raise UsageError(f"{options.command[0]}: there is no such program")


def _brokers(options: argparse.Namespace, topics: set[str]) -> Callable[[], AbstractContextManager[ProofBroker]]:
    servers = options.bootstrap_server
    if servers is None:
        return lambda: own_broker(options.partitions, {})
    await_broker(addresses(servers.split(",")), has_tls=False)
    return lambda: proxied_broker(servers, topics, options.partitions)


# -- files


def _records(option: str, path: str) -> tuple[dict[str, list[Record]], bool]:
    """Read the records of a file. Returns them by topic, and whether any value is JSON and not just text."""
    lines = [
        _line(f"{option} {path} line {number}", line)
        for number, line in enumerate(file_text(option, path).splitlines(), 1)
        if line.strip()
    ]
    if not lines:
        raise UsageError(f"{option} {path}: it has no records")
    has_keys = any("key" in line for line in lines)
    is_json = any(not isinstance(line.get("value"), str | None) for line in lines)
    records: dict[str, list[Record]] = {}
    for line in lines:
        value = _bytes(line.get("value"))
        value = _canonical(value) if is_json else value
        records.setdefault(line["topic"], []).append((_bytes(line.get("key")), value) if has_keys else value)
    return records, is_json


def _line(where: str, text: str) -> dict[str, Any]:
    try:
        line = json.loads(text)
    except ValueError as error:
        raise InputError(f"{where} is not JSON: {error}") from None
    if not isinstance(line, dict) or not isinstance(line.get("topic"), str) or not line["topic"]:
        raise InputError(f'{where} has no "topic"')
    if unknown := sorted(set(line) - {"topic", "key", "value"}):
        raise InputError(f"{where} has {unknown[0]!r}; a record has a topic, a key and a value")
    return line


def _bytes(value: object) -> Value:
    match value:
        case None:
            return None
        case str():
            return value.encode()
        case _:
            return _json(value)


def _canonical(value: Value) -> Value:
    """Return a JSON value in canonical form, and any other value unchanged."""
    try:
        return None if value is None else _json(json.loads(value))
    except ValueError:
        return value


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


# -- output


def _print_table(results: list[ScenarioResult]) -> None:
    columns = ("scenario", "outcome", "struck", "lives")
    rows = [
        [result.scenario, str(result.outcome), result.struck, result.lives]
        for result in results
        if result.outcome is not ScenarioOutcome.NOT_APPLICABLE
    ]
    print(table(rows, columns, colour=is_colourful(sys.stdout)))
    reasons = Counter(result.what for result in results if result.outcome is ScenarioOutcome.NOT_APPLICABLE)
    for reason, count in reasons.items():
        print(f"{count} scenarios do not apply: {reason}")


def _verdict(proof: Proof, results: list[ScenarioResult]) -> str:
    counts = Counter(result.outcome for result in results)
    said = []
    if not proof.is_transactional:
        said.append("The program is not transactional: it makes no EndTxn request.")
    if counts[ScenarioOutcome.WRONG]:
        said.append(f"Not exactly-once: records were lost or doubled in {counts[ScenarioOutcome.WRONG]} scenarios.")
    if unproven := counts[ScenarioOutcome.STRUCK_NOTHING] + counts[ScenarioOutcome.NOT_ENDED]:
        said.append(f"Not proven: {unproven} scenarios struck nothing, or the program never ended.")
    if not any(counts[outcome] for outcome in _FAILED):
        said.append(f"Nothing lost and nothing doubled in {counts[ScenarioOutcome.RIGHT]} scenarios.")
    return "\n".join(said)


def _exit_code(results: list[ScenarioResult]) -> Exit:
    outcomes = {result.outcome for result in results}
    if ScenarioOutcome.WRONG in outcomes:
        return Exit.FOUND
    return Exit.FAILED if outcomes & set(_FAILED) else Exit.OK
