"""What clients write themselves to topics with large messages: segments that policies have not validated as a whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from integration.front import Front, logged, started
from integration.validation.wire import Wire

from kafka_sidecar.codec.records import Header, NewRecord, build_batch
from kafka_sidecar.large_messages import back_pointers, lm_header
from kafka_sidecar.large_messages.back_pointers import BackPointers
from kafka_sidecar.large_messages.lm_header import V3, LmHeader

pytestmark = pytest.mark.integration

RULES = """
topics:
  - {name: "validated-*", policy: json}
  - {name: "shadow-*", policy: json, mode: shadow}
  - {name: "moved-*", policy: json}
large_messages:
  li_clients: ["*"]
  topics:
    - {name: "moved-*", accept_segments: true}
    - {name: "*"}
"""
PARTS = [b'{"a":1}', b'{"evil":true}']  # each is JSON, together they are not
ID = bytes(range(16))


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with started(tmp_path_factory.mktemp("segments"), RULES) as (cluster, sidecar):
        yield Front(cluster, sidecar)


def segments() -> list[NewRecord]:
    size = sum(map(len, PARTS))
    return [
        NewRecord(part, ID, (Header(lm_header.KEY, LmHeader(V3, ID, number, len(PARTS), size).encode()),))
        for number, part in enumerate(PARTS)
    ]


@pytest.mark.parametrize("version", [3, 9, 12, 13])
def test_segments_are_refused_with_their_index_where_a_policy_is_enforced(front: Front, version: int) -> None:
    topic = front.topic(f"validated-{version}")
    with Wire(front.sidecar.bootstrap) as wire:
        whole = wire.produce(version, {topic: {0: build_batch([NewRecord(b"1", b"k"), *segments()])}})[topic, 0]
        alone = [wire.produce(version, {topic: {0: build_batch([one])}})[topic, 0].code for one in segments()]
        plain = wire.produce(version, {topic: {0: build_batch([NewRecord(b"1", b"k")])}})[topic, 0].code
    assert (whole.code, alone, plain) == (87, [87, 87], 0)
    if version > 9:
        assert [index for index, _ in whole.record_errors] == [1, 2]
    assert [one.value() for one in logged(front.sidecar.bootstrap, topic)] == [b"1"]
    assert front.stored(topic) == [b"1"]


@pytest.mark.parametrize("kind", ["shadow", "moved", "free"])
def test_elsewhere_they_pass_unchanged(front: Front, kind: str) -> None:
    topic = front.topic(f"{kind}-segments")
    with Wire(front.sidecar.bootstrap) as wire:
        assert wire.produce(12, {topic: {0: build_batch(segments())}})[topic, 0].code == 0
    assert front.stored(topic) == PARTS


@pytest.mark.parametrize("kind", ["validated", "shadow", "free"])
def test_pointers_of_a_client_are_refused_with_a_policy_and_without(front: Front, kind: str) -> None:
    topic = front.topic(f"{kind}-pointers")
    forged = Header(back_pointers.KEY, BackPointers(bytes(16), 0, (0,)).encode())
    with Wire(front.sidecar.bootstrap) as wire:
        data = build_batch([NewRecord(b"1", b"k", (*segments()[1].headers, forged))])
        assert wire.produce(12, {topic: {0: data}})[topic, 0].code == 87
    assert front.stored(topic) == []
