"""Members of share groups (KIP-932) get what interceptors leave of the records, and the group goes on to the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial

import pytest
import zstandard
from integration.interception.batches import Sender, send
from integration.interception.intercepted import MAX_BATCH, Intercepted
from integration.interception.reads import How, Reader
from integration.interception.share_readers import begin_at_the_start, lag, read_all, read_with_java
from integration.validation.batches import batch, record
from integration.validation.wire import Wire

pytestmark = pytest.mark.integration

ZSTD = 4


@pytest.fixture
def earliest(intercepted: Intercepted) -> Callable[[str], str]:
    """Makes a share group begin at the start of the log; returns its name."""
    return partial(begin_at_the_start, intercepted)


def mixed(topic: str, intercepted: Intercepted) -> list[bytes]:
    """Batches of which some records stay, some are edited, some dropped; what is left of them."""
    direct = intercepted.cluster.direct
    send(direct, topic, [[b"drop a"], [b"keep 1", b"drop b", b"edit 2", b"drop c"]], "lz4")
    sender = Sender(direct, topic, "gzip", f"{topic}-writer")
    sender.begin()
    sender.batch(b"drop d", b"keep 3")
    sender.commit()
    send(direct, topic, [[b"drop e", b"drop f"], [b"keep 4", b"drop g"], [b"drop h"]], "zstd")
    return [b"keep 1", b"was edit 2", b"keep 3", b"keep 4"]


@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_dropped_records_are_acknowledged_as_gaps_and_the_group_goes_on(
    intercepted: Intercepted, earliest: Callable[[str], str], mode: str
) -> None:
    topic, group = intercepted.topic(f"chosen-share-{mode}"), earliest(f"share-{mode}")
    left = mixed(topic, intercepted)
    assert [message.value() for message in read_all(intercepted, group, topic, mode)] == left


def test_javas_share_consumer_goes_on_after_dropped_records(
    intercepted: Intercepted, earliest: Callable[[str], str]
) -> None:
    topic, group = intercepted.topic("chosen-share-java"), earliest("share-java")
    left = mixed(topic, intercepted)
    assert read_with_java(intercepted, group, topic) == [value.decode() for value in left]
    assert lag(intercepted, group, topic) == 0


CARDS = [json.dumps({"card": f"4000 {number}"}).encode() for number in range(3)]
MASKED = b'{"card": "***"}'


def write_cards(intercepted: Intercepted, topic: str) -> None:
    """With a batch between them that inflates to more than the sidecar looks into."""
    direct = intercepted.cluster.direct
    send(direct, topic, [CARDS[:1]], "zstd")
    large = zstandard.compress(record(0, b'{"card": "4000"}' + bytes(MAX_BATCH)))
    with Wire(direct) as wire:
        assert wire.produce(12, {topic: {0: batch(large, 1, attributes=ZSTD)}})[topic, 0].code == 0
    send(direct, topic, [CARDS[1:]], "zstd")


@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_what_is_hidden_is_hidden_from_share_groups_too(
    intercepted: Intercepted, earliest: Callable[[str], str], mode: str
) -> None:
    topic, group = intercepted.topic(f"masked-share-{mode}"), earliest(f"masked-{mode}")
    write_cards(intercepted, topic)
    assert [message.value() for message in read_all(intercepted, group, topic, mode)] == [MASKED] * 3


def test_what_is_hidden_is_hidden_from_javas_share_consumer_too(
    intercepted: Intercepted, earliest: Callable[[str], str]
) -> None:
    topic, group = intercepted.topic("masked-share-java"), earliest("masked-java")
    write_cards(intercepted, topic)
    assert read_with_java(intercepted, group, topic) == [MASKED.decode()] * 3
    assert lag(intercepted, group, topic) == 0


@pytest.mark.parametrize("client", ["java", "librdkafka", "aiokafka", "kafka-python"])
def test_a_batch_that_cannot_be_looked_into_is_hidden_and_does_not_stop_a_consumer(
    intercepted: Intercepted, readers: Mapping[str, Reader], client: str
) -> None:
    topic = intercepted.topic(f"masked-{client}")
    write_cards(intercepted, topic)
    read = readers[client](intercepted.sidecar.bootstrap, [topic], f"hidden-{client}", How())
    assert [*read.values(topic)] == [MASKED] * 3
    assert read.positions == {(topic, 0): 4}
    assert intercepted.metric('intercepted_batches_total{api_key="Fetch",result="hidden_too_large"}') >= 1
