"""Requests that brokers before Kafka 4.0 take, through a sidecar with policies and interceptors."""

from __future__ import annotations

from collections.abc import Iterator
from struct import pack
from zlib import crc32

import pytest
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.versions import OLDEST
from integration.interception.intercepted import Intercepted, rules
from integration.scenarios.target import eventually
from integration.validation.wire import Wire
from support import old_requests
from support.old_requests import produce_request, produce_results

pytestmark = [pytest.mark.integration, pytest.mark.slow]

RULES = """
policies: {short: {type: limits, max_value_bytes: 10}}
topics: [{name: "validated-*", policy: short}]
interceptors:
  - {type: mask_fields, topics: ["masked-*"], fields: ["$.card"]}
  - {type: "hooks:Chosen", topics: ["counted-*"], class_path: "PLUGGED"}
  - {type: "hooks:Marks", topics: ["marks-*"], class_path: "PLUGGED"}
  - {type: "hooks:Commits", name: filter, topics: ["filter-*"], class_path: "PLUGGED", events: "EVENTS", does: filter}
"""
UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
VALUE = b'{"card": "4000"}'


def message(value: bytes, magic: int) -> bytes:
    """One message of format 0 or 1."""
    time = pack(">q", 1_700_000_000_000) if magic else b""
    body = bytes((magic, 0)) + time + pack(">i", -1) + pack(">i", len(value)) + value
    return pack(">qi", 0, 4 + len(body)) + pack(">I", crc32(body)) + body


class OldWire(Wire):
    """A connection that speaks the versions that Kafka 4.0 dropped."""

    def say(self, frame: bytes) -> bytes:
        """The response frame; EOFError where the connection ends."""
        self._socket.sendall(frame)
        length = self._exactly(4)
        return length + self._exactly(int.from_bytes(length, "big"))


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Intercepted]:
    folder = tmp_path_factory.mktemp("old")
    config, events = folder / "sidecar.yaml", folder / "events"
    config.write_text(rules(RULES, events))
    with (
        Cluster.start(OLDEST, 1) as cluster,
        Sidecar.start(cluster.bootstrap, folder / "sidecar.log", ["--config", str(config)]) as sidecar,
    ):
        yield Intercepted(cluster, sidecar, {}, events)
        assert cluster.leaks() == []


@pytest.mark.parametrize("version", range(3))
def test_old_produce_requests_pass_or_are_rejected_by_topic(old: Intercepted, version: int) -> None:
    free, validated, marks = (old.topic(f"{name}-{version}") for name in ("free", "validated", "marks"))
    records = message(b"short", version // 2) * 2
    with OldWire(old.sidecar.bootstrap) as wire:
        frame = produce_request(version, {free: {0: records}, validated: {0: records}, marks: {0: records}})
        results = produce_results(version, wire.say(frame))
        assert [(topic, code) for topic, _, code, _ in results] == [
            (free, 0), (validated, UNSUPPORTED_FOR_MESSAGE_FORMAT), (marks, 0)
        ]  # fmt: skip
        assert produce_results(version, wire.say(produce_request(version, {free: {0: records}}))) == [(free, 0, 0, 2)]
    assert (old.stored(free), old.stored(validated), old.stored(marks)) == ([b"short"] * 4, [], [b"short"] * 2)
    assert old.metric('intercepted_batches_total{api_key="Produce",result="old_format"}') == version + 1


@pytest.mark.parametrize("version", range(4))
def test_old_fetch_requests_pass_unless_something_is_hidden(old: Intercepted, version: int) -> None:
    free, counted, masked = (old.topic(f"{name}-fetch-{version}") for name in ("free", "counted", "masked"))
    with OldWire(old.cluster.direct) as direct, OldWire(old.sidecar.bootstrap) as wire:
        topics = {topic: {0: message(VALUE, 1)} for topic in (free, counted, masked)}
        direct.say(produce_request(2, topics))
        frame = old_requests.fetch_request(version, {(free, 0): 0, (counted, 0): 0})
        said = wire.say(frame)
        assert said == direct.say(frame)
        assert said.count(VALUE) == 2
        assert VALUE in direct.say(old_requests.fetch_request(version, {(masked, 0): 0}))
        with pytest.raises(EOFError):
            wire.say(old_requests.fetch_request(version, {(free, 0): 0, (masked, 0): 0}))


def test_hooks_run_for_old_commits(old: Intercepted) -> None:
    topic = old.topic("filter-commits", 2)
    offsets = {(topic, 0): (5, "mine"), (topic, 1): (6, "")}
    with OldWire(old.sidecar.bootstrap) as wire:

        def commit() -> bytes:
            return wire.say(old_requests.commit_request(1, "old-group", offsets))

        wanted = old_requests.commit_response(dict.fromkeys(offsets, 0))
        eventually(commit, lambda said: said == wanted, "the coordinator is there")
    assert old.committed("old-group") == {(topic, 0): (5, "mine")}
