"""li's tests of commits on its log "SYN", with plain consumers of four libraries through the sidecar.

Numbers are those of the table in docs/reference/large-messages.md.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from integration.large_messages.groups import CLIENTS, Groups
from integration.large_messages.li_log import MESSAGES, VISIBLE, small, value
from integration.large_messages.stepped import Stepped, offsets
from integration.large_messages.stepped import value as value_of

pytestmark = pytest.mark.integration


@pytest.fixture(params=CLIENTS)
def client(groups: Groups, request: pytest.FixtureRequest) -> Stepped:
    return groups.clients[request.param]


def whole(offset: int) -> bytes:
    """The value of the message at an offset of SYN."""
    return small(MESSAGES[offset]) if offset in {2, 7} else value(MESSAGES[offset])


def committed(offset: int, stored: int) -> tuple[int, str]:
    """What the broker has when a client commits an offset whose safe offset is ``stored``."""
    return (offset, "") if offset == stored else (stored, f"{offset},")


def test_each_commit_stores_the_offset_from_which_li_reads_all_that_is_open(groups: Groups, client: Stepped) -> None:
    """li 31, 37: after each message the client reads what it has committed, and a new consumer goes on from there."""
    place = groups.place(groups.syn())
    safe = {2: 0, 4: 0, 5: 3, 6: 7, 7: 8, 9: 10}
    for offset in VISIBLE:
        record, back = client(place, "poll", "commit", "committed")
        assert offsets([record]) == [offset]
        assert value_of(record) == whole(offset)
        assert back.split("\t")[0] == str(offset + 1)
        assert groups.stored_offset(place) == committed(offset + 1, safe[offset])


def test_a_partition_of_messages_that_are_never_complete_is_committed_at_its_end(
    groups: Groups, client: Stepped
) -> None:
    """li 31, partition 1: user 2, safe 0."""
    place = groups.place(groups.syn(), partition=1)
    assert client(place, "rest", "commit", "committed")[0] == "end\t2"
    assert groups.stored_offset(place) == (0, "2,")


def test_an_explicit_commit_stores_the_safe_offset_of_any_offset(groups: Groups, client: Stepped) -> None:
    """li 31, 32: from the beginning 0 -> 0, 10 -> 10, 6 -> 3, 3 -> 0; and after M1 4 -> 0."""
    place = groups.place(groups.syn())
    for offset, safe in ((0, 0), (10, 10), (6, 3), (3, 0), (4, 0)):
        client(place, "rest" if offset == 0 else "position", f"commit {offset}")
        assert groups.stored_offset(place) == committed(offset, safe)
    assert client(place, "committed")[0].split("\t")[0] == "4"


@pytest.mark.parametrize(
    "name", ["librdkafka", *(pytest.param(one, marks=pytest.mark.matrix) for one in ("java", "kafka-python"))]
)
def test_a_new_consumer_reads_offset_and_metadata_back(groups: Groups, name: str) -> None:
    """All but aiokafka, which returns the offset alone.

    li 31, 34: (8, "new commit") has the safe offset 8; metadata of plain clients comes back as it was."""
    client, place = groups.clients[name], groups.place(groups.syn())
    client(place, "rest", "commit 8 new commit")
    assert groups.stored_offset(place) == (8, "new commit")
    assert client(place, "committed") == ["8\tnew commit"]
    for text in ("test", "test,test", "12,foo", "4,"):
        assert client(place, f"commit 3 {text}", "committed") == [f"3\t{text}"]
        assert groups.stored_offset(place) == (0, f"3,{text}")


def test_an_asynchronous_commit_is_shown_to_its_callback_as_the_client_made_it(groups: Groups) -> None:
    """li 33: 3 / 0, then 0 / 0."""
    place = groups.place(groups.syn())
    assert groups.clients["java"](place, "poll", "commit_async")[1] == "3\t"
    assert groups.stored_offset(place) == (0, "3,")
    groups.clients["java"](place, "commit 0")
    assert groups.stored_offset(place) == (0, "")


@pytest.mark.parametrize("kind", ["plain", "strict"])
def test_modes_store_nothing_of_li_or_all(groups: Groups, kind: str) -> None:
    place, client = groups.place(groups.syn(kind)), groups.clients["librdkafka"]
    assert client(place, "poll", "commit", "rest", "committed")[-1].split("\t")[0] == "3"
    assert groups.stored_offset(place) == ((3, "") if kind == "plain" else (0, "3,"))
    client(place, "rest", "commit")
    assert groups.stored_offset(place) == ((10, "") if kind == "plain" else (10, "10,"))


def test_what_a_consumer_of_li_has_committed_is_read_by_plain_ones_and_all_that_is_open_is_delivered(
    groups: Groups, client: Stepped
) -> None:
    """A group in which a consumer of li, past the sidecar, has committed (0, "3,theirs")."""
    place = groups.place(groups.syn())
    groups.clients["java"](replace(place, bootstrap=groups.cluster.direct), "commit 0 3,theirs")
    lines = client(place, "committed", "rest")
    assert lines[0].split("\t")[0] == "3"
    assert offsets(lines) == [4, 5, 6, 7, 9]


def test_offsets_of_a_client_of_li_are_not_wrapped_twice(groups: Groups) -> None:
    place, client = groups.place(groups.syn()), groups.clients["librdkafka"]
    of_li = replace(place, client_id="li-consumer")
    client(of_li, "commit 0 3,theirs")
    assert groups.stored_offset(place) == (0, "3,theirs")
    assert client(of_li, "committed") == ["0\t3,theirs"]
    assert client(place, "committed") == ["3\ttheirs"]


def test_kafkas_own_tool_shows_what_the_client_has_committed_and_to_the_broker_the_safe_offset(
    groups: Groups,
) -> None:
    place = groups.place(groups.syn())
    groups.clients["librdkafka"](place, "poll", "commit")
    assert groups.lag(groups.sidecar.bootstrap, place) == (3, 7)
    assert groups.lag(groups.cluster.direct, place) == (0, 10)


def test_a_commit_times_out_while_the_broker_does_not_respond(groups: Groups) -> None:
    """li 35."""
    place, node = groups.place(groups.syn()), groups.cluster.nodes[1]
    node.stop()
    try:
        assert groups.clients["java"](place, "commit_within 1500") == ["error\tTimeoutException"]
    finally:
        node.cont()
