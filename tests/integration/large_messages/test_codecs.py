"""Large messages of every codec, from producers of four libraries, read by nine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import pytest
from harness.tool_host import ToolHost
from integration.front import Front
from integration.interception.reads import How as Reading
from integration.interception.reads import Reader
from integration.interception.wire import codecs_of
from integration.large_messages.other_consumers import TOOLS, read
from integration.large_messages.senders import LIBRARIES, How, senders
from integration.large_messages.test_other_clients import as_shown, param

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

LIMIT = 20_000
CODECS = ("gzip", "snappy", "lz4", "zstd")
PRODUCERS = ("java", "librdkafka")
# What clients do not read from a broker either: kafkajs has plug-ins for it, @platformatic/kafka needs Node 22 for zstd
# and does not know the blocks in which Java writes snappy.
UNKNOWN = {
    *((producer, "kafkajs", codec) for producer in PRODUCERS for codec in CODECS if codec != "gzip"),
    *((producer, "platformatic", "zstd") for producer in PRODUCERS),
    ("java", "platformatic", "snappy"),
}
OTHERS = [
    (client, codec, producer)
    for client in TOOLS
    for codec in CODECS
    for producer in PRODUCERS
    if (producer, client, codec) not in UNKNOWN
]
Sent = Mapping[tuple[str, str], tuple[str, Sequence[tuple[int, bytes]]]]  # topic and records, by codec and producer


def text(lines: int) -> bytes:
    """About half of it is left by a codec."""
    return b"".join(b'{"id": %d, "text": "%s"}\n' % (at, os.urandom(9).hex().encode()) for at in range(lines))


@pytest.fixture(scope="module")
def sent(large: Front, java: Mapping[str, ToolHost]) -> Sent:
    found = {}
    for codec in CODECS:
        for library, send in senders(java).items():
            topic = large.topic(f"large-{codec}-{library}", max_message_bytes=str(LIMIT))
            values = [b"small", text(4000), b"also small", text(3000), b"last"]
            results = send(large.sidecar.bootstrap, topic, [values], How(codec))
            assert [one.error for one in results] == [""] * len(values)
            assert codecs_of(large.cluster.direct, topic) == {codec}
            found[codec, library] = topic, [(one.offset, value) for one, value in zip(results, values, strict=True)]
    return found


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("codec", CODECS)
def test_every_client_reads_what_every_producer_has_compressed(
    large: Front, readers: Mapping[str, Reader], sent: Sent, codec: str, library: str
) -> None:
    topics = [sent[codec, producer] for producer in LIBRARIES]
    group = f"codecs-{codec}-{library}"
    seen = readers[library](large.sidecar.bootstrap, [topic for topic, _ in topics], group, Reading())
    for topic, records in topics:
        assert [(one.offset, one.value) for one in seen.of(topic)] == records


@pytest.mark.parametrize(("client", "codec", "producer"), [param(*one) for one in OTHERS])
def test_so_do_clients_in_go_and_javascript(large: Front, sent: Sent, client: str, codec: str, producer: str) -> None:
    topic, records = sent[codec, producer]
    assert read(client, large.sidecar.bootstrap, topic, len(records)) == as_shown(records)
