"""Offsets that a group has committed before its topic had large messages, or past the sidecar."""

from __future__ import annotations

from dataclasses import replace

import pytest
from integration.large_messages.groups import CLIENTS, Groups
from integration.large_messages.stepped import Stepped, offsets

pytestmark = pytest.mark.integration
HELD = 120  # records of the log


@pytest.fixture(params=CLIENTS)
def client(groups: Groups, request: pytest.FixtureRequest) -> Stepped:
    return groups.clients[request.param]


@pytest.fixture(scope="module")
def plain_topic(groups: Groups) -> str:
    topic = groups.new_topic()
    groups.fill(topic, HELD)
    return topic


@pytest.mark.parametrize(
    "stored",
    [
        (100, "110,host-7"), (100, "1700000000000,host"), (100, "100,x"), (100, "101,"), (100, "100,5,x"),
        (119, "120,"), (120, "125,live"), (100, "99,x"), (0, "1,first"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["li", "strict"])
def test_a_group_that_existed_before_goes_on_where_it_was_with_its_metadata(
    groups: Groups, plain_topic: str, kind: str, stored: tuple[int, str]
) -> None:
    topic = plain_topic
    if kind == "strict":
        topic = groups.new_topic(kind)
        groups.fill(topic, HELD)
    place = groups.place(topic)
    offset, metadata = stored
    groups.clients["java"](replace(place, bootstrap=groups.cluster.direct), f"commit {offset} {metadata}")
    lines = groups.clients["java"](place, "committed", "rest")
    read = offset
    if metadata.startswith(f"{offset},") and (kind == "strict" or metadata == "100,5,x"):
        metadata = metadata.partition(",")[2]  # the offset is the same
    assert lines[0] == f"{read}\t{metadata}"
    assert offsets(lines) == [*range(read, HELD)]


def test_each_client_goes_on_where_its_group_was(groups: Groups, plain_topic: str, client: Stepped) -> None:
    place = groups.place(plain_topic)
    groups.clients["java"](replace(place, bootstrap=groups.cluster.direct), "commit 100 110,host-7")
    lines = client(place, "committed", "rest", "commit", "committed")
    assert (lines[0].split("\t")[0], offsets(lines)) == ("100", [*range(100, HELD)])
    assert lines[-1].split("\t")[0] == str(HELD)


def test_what_was_refused_is_counted_and_logged(groups: Groups, plain_topic: str) -> None:
    place, name = groups.place(plain_topic), 'large_messages_refused_offsets_total{reason="no_segment"}'
    groups.clients["librdkafka"](replace(place, bootstrap=groups.cluster.direct), "commit 100 110,host-7")
    before = groups.metric(name)
    groups.clients["librdkafka"](place, "committed")
    assert groups.metric(name) > before
    lines = [one for one in groups.lines() if one["message"].startswith("stored offset is not taken for")]
    assert "no_segment" in {one["reason"] for one in lines}


def test_what_a_sidecar_has_stored_while_a_message_is_open_is_read_back_after_its_restart(
    groups: Groups, client: Stepped
) -> None:
    place = groups.place(groups.syn())
    assert offsets(client(place, "poll", "commit 3 mine")) == [2]
    assert groups.stored_offset(place) == (0, "3,mine")
    groups.sidecar.restart()
    lines = client(place, "committed", "rest")
    assert lines[0].split("\t")[0] == "3"
    assert offsets(lines) == [4, 5, 6, 7, 9]


def test_where_the_log_begins_after_the_first_slice_a_group_goes_on_at_its_beginning(groups: Groups) -> None:
    place = groups.place(groups.syn())
    groups.clients["librdkafka"](place, "rest", "commit 6")
    assert groups.stored_offset(place) == (3, "6,")
    groups.sidecar.restart()
    groups.delete_before(place.topic, 5)
    assert offsets(groups.clients["librdkafka"](replace(place, reset="latest"), "rest")) == [7, 9]
