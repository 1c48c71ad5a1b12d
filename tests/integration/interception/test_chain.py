"""A chain of five of which the third fails at random: the others see everything, and no client notices."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from harness.sidecar import Sidecar
from integration.interception.batches import Sender
from integration.interception.intercepted import Intercepted, rules
from integration.interception.readers import librdkafka
from integration.interception.reads import How, Reader
from integration.interception.test_commit_requests import ALONE, commit
from integration.scenarios.target import eventually
from integration.validation.waves import STORED, Client, wave
from integration.validation.wire import Wire

from kafka_sidecar.codec.apis import ApiKey

pytestmark = pytest.mark.integration

CHAIN = """
interceptors:
  - {type: "hooks:Link", name: first, mark: 1, class_path: "PLUGGED", events: "EVENTS-first"}
  - {type: "hooks:Link", name: second, mark: 2, class_path: "PLUGGED", events: "EVENTS-second"}
  - {type: "hooks:Failing", name: third, mark: 3, class_path: "PLUGGED", events: "EVENTS-third", THIRD}
  - {type: "hooks:Link", name: fourth, mark: 4, class_path: "PLUGGED", events: "EVENTS-fourth"}
  - {type: "hooks:Link", name: fifth, mark: 5, class_path: "PLUGGED", events: "EVENTS-fifth"}
"""
AT_RANDOM = """max_failures: 0, chance:
     {on_send: 0.3, on_acknowledgement: 0.3, on_consume: 0.02, pre_commit: 0.4, on_commit: 0.4}"""
FIRST, PAUSE_S = 6, 2
AT_FIRST = f"max_failures: 5, pause: {PAUSE_S}s, first: {FIRST}"
OTHERS = ("first", "second", "fourth", "fifth")
WITHOUT, WITH = [b"1", b"2", b"4", b"5"], [b"1", b"2", b"3", b"4", b"5"]
WAVES = (wave("first", 10), wave("flood", 500, filler=100), wave("last", 10))
COMMITS = 60
HOOKS = ("on_send", "on_acknowledgement", "on_consume", "pre_commit", "on_commit")
CLIENTS = ("java", "librdkafka", "aiokafka", "kafka-python")


def chain(intercepted: Intercepted, third: str, folder: Path) -> Iterator[Intercepted]:
    """A sidecar of its own in front of the same broker."""
    config, events = folder / "sidecar.yaml", folder / "events"
    config.write_text(rules(CHAIN.replace("THIRD", third), events))
    flags = ["--config", str(config)]
    with Sidecar.start(intercepted.cluster.bootstrap, folder / "sidecar.log", flags) as sidecar:
        yield replace(intercepted, sidecar=sidecar, events_file=events)


@pytest.fixture(scope="module")
def at_random(intercepted: Intercepted, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Intercepted]:
    """The third may fail in any call."""
    yield from chain(intercepted, AT_RANDOM, tmp_path_factory.mktemp("chain"))


@pytest.fixture
def at_first(intercepted: Intercepted, tmp_path: Path) -> Iterator[Intercepted]:
    """The third fails in its first calls."""
    yield from chain(intercepted, AT_FIRST, tmp_path)


def events_of(front: Intercepted, name: str, hook: str, **about: object) -> list[dict[str, Any]]:
    """The events of one interceptor of the chain."""
    return replace(front, events_file=front.events_file.with_name(f"events-{name}")).events(hook, **about)


def marks(headers: Any, key: str) -> list[bytes | None]:
    return [value for name, value in headers or () if name == key]


@pytest.mark.parametrize("client", CLIENTS)
def test_every_other_one_sees_every_record_and_no_client_notices(
    at_random: Intercepted, producers: Mapping[str, Client], readers: Mapping[str, Reader], client: str
) -> None:
    topic, bootstrap = at_random.topic(f"chain-{client}"), at_random.sidecar.bootstrap
    values = [sent.value.encode() for each in WAVES for sent in each]
    before = {name: len(events_of(at_random, name, "on_acknowledgement")) for name in OTHERS}

    outcome = producers[client](bootstrap, topic, "lz4", "idempotent", WAVES)
    read = readers[client](bootstrap, [topic], topic, How(fetch_bytes=2000))

    assert {*outcome.results.values()} == {STORED}
    log = at_random.log(topic)
    assert [record.value() for record in log] == values
    sent = [marks(record.headers(), "sent") for record in log]
    assert sum(found == WITHOUT for found in sent) > 50
    assert sum(found == WITH for found in sent) > 50
    assert all(found in (WITHOUT, WITH) for found in sent)
    assert list(read.values(topic)) == values
    consumed = [marks(record.headers, "consumed") for record in read.of(topic)]
    assert WITHOUT in consumed
    assert WITH in consumed
    assert all(found in (WITHOUT, WITH) for found in consumed)
    assert at_random.lag(topic) == {(topic, 0): 0}
    for name in OTHERS:
        acknowledged = events_of(at_random, name, "on_acknowledgement")[before[name] :]
        assert Counter(event["offset"] for event in acknowledged) == Counter(range(len(values)))
        assert {event["error"] for event in acknowledged} == {None}


def test_every_other_one_sees_every_commit(at_random: Intercepted) -> None:
    topic, group = at_random.topic("chain-commits"), "chain-commits"
    place, committed = {topic: {0: 1}}, []
    with Wire(at_random.cluster.direct) as wire:
        wire.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[group])
    eventually(lambda: commit(at_random.cluster.direct, 9, group, place, ALONE)[0][1], lambda code: not code, "a group")
    before = {name: len(events_of(at_random, name, "on_commit")) for name in OTHERS}

    for _ in range(COMMITS):
        assert commit(at_random.sidecar.bootstrap, 9, group, place, ALONE) == [((topic, 0), 0)]
        committed.append(at_random.committed(group)[topic, 0][1])

    assert {*committed} == {"m1245", "m12345"}
    for name in OTHERS:
        assert [event["offsets"] for event in events_of(at_random, name, "on_commit")[before[name] :]] == [
            [metadata] for metadata in committed
        ]


def test_each_failure_is_counted_and_each_kind_is_logged_once_a_minute(at_random: Intercepted) -> None:
    topic, group, bootstrap = at_random.topic("chain-failures"), "chain-failures", at_random.sidecar.bootstrap
    Sender(bootstrap, topic).batch(*[b"v"] * 500)
    librdkafka(bootstrap, [topic], group, How())
    for offset in range(COMMITS):
        assert commit(bootstrap, 9, group, {topic: {0: offset}}, ALONE) == [((topic, 0), 0)]

    raised = events_of(at_random, "third", "raised")
    assert {event["of"] for event in raised} == {*HOOKS}
    counts = Counter(event["of"] for event in raised)
    series = [f'interceptor_failures_total{{hook="{hook}",interceptor="third"}}' for hook in counts]
    others = [f'interceptor_failures_total{{hook="{hook}",interceptor="{name}"' for name in OTHERS for hook in HOOKS]
    metrics = at_random.metrics(*series, *others, 'interceptor_disabled{interceptor="third"}')
    assert metrics == [*counts.values(), *[0] * len(others), 0]
    lines = [line for line in at_random.lines() if line["message"] == "interceptor failed"]
    assert {line["interceptor"] for line in lines} == {"third"}
    kinds = Counter((line["hook"], kind_of(line["traceback"])) for line in lines)
    assert {*kinds} == {(event["of"], kind_of_raised(**event)) for event in raised}
    minutes = (time.time() - datetime.fromisoformat(lines[0]["timestamp"]).timestamp()) // 60
    assert max(kinds.values()) <= 1 + minutes
    assert "secret" not in at_random.sidecar.log.read_text()


def kind_of(traceback: str) -> str:
    """The name of the exception: its text is hidden."""
    return traceback.rstrip().splitlines()[-1].partition(": ")[0].rpartition(".")[2]


def kind_of_raised(of: str, kind: str, hook: str) -> str:
    """What becomes of it: a generator cannot raise it (PEP 479)."""
    return "RuntimeError" if (of, kind) == ("on_consume", "StopIteration") else kind


def test_one_that_always_fails_is_disabled_and_enabled_again_when_it_works(at_first: Intercepted) -> None:
    topic = at_first.topic("chain-breaker")
    sender = Sender(at_first.sidecar.bootstrap, topic)
    sender.batch(*[b"%d" % number for number in range(20)])

    def is_disabled() -> float:
        return at_first.metric('interceptor_disabled{interceptor="third"}')

    assert is_disabled() == 1
    assert at_first.metric('interceptor_failures_total{hook="on_send",interceptor="third"}') == FIRST - 1
    eventually(is_disabled, lambda out: out == 0, "the pause is over")
    sender.batch(*[b"%d" % number for number in range(20)])  # its last failure
    assert is_disabled() == 1
    time.sleep(PAUSE_S)
    sender.batch(*[b"%d" % number for number in range(20)])

    sent = [marks(record.headers(), "sent") for record in at_first.log(topic)]
    assert sent == [WITHOUT] * 40 + [WITH] * 20
    assert is_disabled() == 0
    assert at_first.metric('interceptor_failures_total{hook="on_send",interceptor="third"}') == FIRST
    lines = [line for line in at_first.lines() if line["message"] == "interceptor disabled for a client"]
    # A line a minute for each client.
    assert [(line["interceptor"], line["failures"], line["level"]) for line in lines] == [("third", FIRST - 1, "error")]
    for name in OTHERS:
        assert len(events_of(at_first, name, "on_acknowledgement")) == 60
