"""Topics that store batches in another codec than producers send: what counts there is the size that is stored."""

from __future__ import annotations

import os

import pytest
from integration.front import Front, logged
from integration.large_messages.senders import How, librdkafka
from integration.large_messages.stored import assembled

pytestmark = pytest.mark.integration

LIMIT = 20_000
COMPRESSES = b"".join(b'{"id": %9d, "text": "%s"}\n' % (at, b"x" * 400) for at in range(1000))  # 100 : 1
NOISE = os.urandom(50_000)
HALF = b"".join(os.urandom(40) + bytes(400) for _ in range(300))
SMALL = b"".join(b'{"id": %9d, "text": "%s"}\n' % (at, b"x" * 400) for at in range(40))
CODECS = ["none", "zstd", "lz4"]
TYPES = ["uncompressed", "gzip", "zstd", "lz4", "snappy", "producer"]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("compression_type", TYPES)
def test_large_messages_are_whole_whatever_the_topic_makes_of_the_producers_codec(
    large: Front, compression_type: str, codec: str
) -> None:
    topic = large.topic(
        f"large-{compression_type}-{codec}", max_message_bytes=str(LIMIT), compression_type=compression_type
    )
    waves = [[COMPRESSES], [b"1", COMPRESSES, NOISE, b"4"], [HALF], [SMALL[:15_000]], [SMALL]]
    sent = librdkafka(large.sidecar.bootstrap, topic, waves, How(codec))
    assert [one.error for one in sent] == [""] * 8
    values = [value for wave in waves for value in wave]
    found = assembled(large.log(topic))
    assert (found.values, found.orphans) == (values, 0)
    assert [one.value() for one in logged(large.sidecar.bootstrap, topic)] == values
