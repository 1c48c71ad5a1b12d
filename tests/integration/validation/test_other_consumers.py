"""Consumers in Go and JavaScript of topics whose rejected records are hidden, or withheld for a while."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path
from zlib import crc32

import pytest
from integration.interception.batches import send
from integration.interception.intercepted import Intercepted
from integration.large_messages.other_consumers import TOOLS, Shown, command, read
from integration.large_messages.test_other_clients import each_client, param
from integration.scenarios.target import LIMIT_S, eventually
from integration.validation.test_consumers import BAD, BATCHES, bad, good

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

FETCHES = 'requests_total{api_key="Fetch"}'
WITHHELD = 'validated_fetched_batches_total{api_key="Fetch",result="withheld"}'
OUTAGE_S = 3


def shown(*batches: list[bytes]) -> list[Shown]:
    """The records of a log that are no bad ones."""
    values = [value for batch in batches for value in batch]
    return [Shown(at, len(one), crc32(one)) for at, one in enumerate(values) if not one.startswith(BAD[:8])]


@pytest.mark.parametrize("client", [param("sarama")])
def test_sarama_shows_the_error_of_what_is_withheld(checked: Intercepted, down: Path, client: str) -> None:
    """To the application, which may go on: the program of the tests ends with any error."""
    topic = checked.topic(f"down-hidden-other-{client}")
    send(checked.cluster.direct, topic, [[b"a", b"bad b"]])
    down.touch()
    try:
        with pytest.raises(subprocess.CalledProcessError):
            read(client, checked.sidecar.bootstrap, topic, 1)
    finally:
        down.unlink()


@each_client
def test_rejected_records_are_hidden_without_a_loop_of_fetches(checked: Intercepted, client: str) -> None:
    topic = checked.topic(f"hidden-other-{client}")
    send(checked.cluster.direct, topic, BATCHES, "gzip")  # which kafkajs has, too
    before, began = checked.metric(FETCHES), time.monotonic()
    expected = shown(*BATCHES)
    assert read(client, checked.sidecar.bootstrap, topic, len(expected), fetch_bytes=1, max_wait_ms=500) == expected
    fetches = checked.metric(FETCHES) - before
    assert fetches <= 3 * len(BATCHES) + 4 * (time.monotonic() - began), "it asks again at once where it gets nothing"


@pytest.mark.parametrize("client", [param(client) for client in TOOLS if client != "sarama"])
def test_while_a_policy_cannot_decide_nothing_is_lost(checked: Intercepted, down: Path, client: str) -> None:
    topic = checked.topic(f"down-hidden-other-{client}")
    batches = [[b"a", b"bad b"], [b"c"], [b"bad d", b"e"]]
    send(checked.cluster.direct, topic, batches)
    values = [b"a", None, b"c", None, b"e"]
    expected = [Shown(at, len(one), crc32(one)) for at, one in enumerate(values) if one is not None]
    command(client)  # it is built before the outage
    before, withheld, began = checked.metric(FETCHES), checked.metric(WITHHELD), time.monotonic()
    down.touch()

    def end_outage() -> None:
        """Some time after the client has come."""
        try:
            eventually(lambda: checked.metric(WITHHELD), lambda found: found > withheld, "the client comes", LIMIT_S)
            time.sleep(OUTAGE_S)
        finally:
            down.unlink()

    outage = threading.Thread(target=end_outage)
    outage.start()
    try:
        assert read(client, checked.sidecar.bootstrap, topic, len(expected)) == expected
    finally:
        outage.join()
    assert checked.metric(WITHHELD) > withheld
    assert checked.metric(FETCHES) - before <= 10 + 6 * (time.monotonic() - began)


@each_client
def test_the_lag_of_hidden_records_is_at_most_those_after_the_last_that_is_shown(
    checked: Intercepted, client: str
) -> None:
    topic = checked.topic(f"hidden-lag-{client}")
    send(checked.cluster.direct, topic, [[good(1)], [good(2), *bad(2)]])
    found = read(client, checked.sidecar.bootstrap, topic, 2, group=topic)
    assert found == shown([good(1)], [good(2)])
    assert checked.lag(topic)[topic, 0] <= 2
