"""Kafka's own producer, consumer and share consumer, as scripts say."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.tool_host import ToolHost
from integration.together.connection import LIMIT_S, Connection, Reading
from integration.together.records import Batch, Outcome, Read, Record, Script, Seen, Sent

MEMBER_LIMIT_S = 120.0  # of a share group: it reads until it is stopped

ERRORS = {
    "": "",
    "InvalidRecordException": "INVALID_RECORD",
    "KafkaException": "OTHERS_INVALID",
    "PolicyViolationException": "POLICY_VIOLATION",
    "RecordTooLargeException": "MESSAGE_TOO_LARGE",
}


def produce(host: ToolHost, at: Connection, script: Script) -> list[Sent]:
    settings = {
        "client.id": at.named(script.name), "compression.type": script.codec, "linger.ms": 5000,
        "batch.size": 2_000_000, "max.request.size": 10_000_000, **at.security.java,
    }  # fmt: skip
    if script.is_transactional:
        settings["transactional.id"] = at.named(script.name)
    lines, expected = list[str](), list[tuple[Batch, Any, str]]()
    for step in script.steps:
        if isinstance(step, Batch):
            lines += _lines(step)
            expected.append((step, None, ""))
            continue
        lines.append(json.dumps({"do": "begin"}))
        for batch in step.batches:
            lines += _lines(batch)
            expected.append((batch, step.end, f"{script.name}-{step.end}"))
        lines.append(json.dumps({"do": step.end}))
    stdin = "".join(f"{line}\n" for line in lines)
    reported = host.run("ScriptedProducer", at.bootstrap, at.topic, *_pairs(settings), stdin=stdin, limit_s=LIMIT_S)
    outcomes = iter([_outcome(line) for line in reported.splitlines()])
    return [
        Sent(batch, _outcomes(batch, outcomes), script.name, script.library, end, name) for batch, end, name in expected
    ]


def _lines(batch: Batch) -> Iterator[str]:
    for records in [[one] for one in batch.segments] or [[*batch.records]]:
        yield json.dumps({"partition": batch.partition, "records": [_json(one) for one in records]})


def _json(record: Record) -> dict[str, Any]:
    headers = [(name, _base64(content)) for name, content in record.headers]
    return {"key": _base64(record.key), "value": _base64(record.value), "headers": headers}


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _outcome(line: str) -> Outcome:
    offset, error = line.split("\t")
    return Outcome(int(offset), ERRORS.get(error, error))


def _outcomes(batch: Batch, reported: Iterator[Outcome]) -> tuple[Outcome, ...]:
    """Of a message in segments the last one's."""
    if batch.segments:
        found = [next(reported) for _ in batch.segments]
        return (next((one for one in found if one.error), found[-1]),)
    return tuple(next(reported) for _ in batch.records)


def _pairs(settings: dict[str, Any]) -> list[str]:
    return [f"{key}={value}" for key, value in settings.items()]


def read(host: ToolHost, at: Connection, how: Reading, half: int = 0) -> Read:
    """To the end of all partitions; a group to ``half`` of its records first, and on with another consumer."""
    if not how.is_group:
        return _read(host, at, how, -1)
    first = _read(host, at, how, half)
    rest = _read(host, at, how, -1)
    assert rest.committed == first.positions, f"{how.name} goes on at {rest.committed}, not at {first.positions}"
    return Read(first.seen + rest.seen, rest.positions, first.positions, rest.positions)


def _read(host: ToolHost, at: Connection, how: Reading, wanted: int) -> Read:
    settings = {
        "client.id": at.named(how.name), "isolation.level": how.isolation, "max.poll.records": 3,
        "max.partition.fetch.bytes": how.fetch_bytes, **at.security.java,
    }  # fmt: skip
    if how.is_group:
        settings["group.id"] = at.named(how.name)
    return _parsed(host.run("ScriptedReader", at.bootstrap, at.topic, wanted, *_pairs(settings), limit_s=LIMIT_S + 5))


def _parsed(reported: str) -> Read:
    found = Read()
    for line in map(json.loads, reported.splitlines()):
        if "positions" in line:
            found.positions = {int(number): offset for number, offset in sorted(line["positions"].items())}
        elif "committed" in line:
            found.committed = {int(number): offset for number, offset in sorted(line["committed"].items())}
        else:
            headers = tuple((name, content) for name, content in line["headers"])
            found.seen.append(Seen(line["partition"], line["offset"], line["key"], line["value"], headers))
    return found


def share(host: ToolHost, at: Connection, name: str, stop: Path) -> Read:
    """A member of a share group, until the file exists."""
    settings = {"client.id": at.named(name), "group.id": at.named(name), **at.security.java}
    arguments = (at.bootstrap, at.topic, stop, *_pairs(settings))
    return _parsed(host.run("Kafka4ScriptedShareReader", *arguments, limit_s=MEMBER_LIMIT_S))
