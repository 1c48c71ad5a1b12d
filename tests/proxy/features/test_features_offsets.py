"""Which requests of committed offsets are looked into, as large messages and interceptors are configured."""

from __future__ import annotations

import pytest
from support.client import FakeClient
from support.commit_requests import IN_TRANSACTION, PLAIN, commit_request, offsets_in
from support.features import begun, started
from support.produce_requests import topic_id

from kafka_sidecar.codec.apis import ApiKey

LARGE = {"topics": [{"name": "orders"}, {"name": "pay*", "offsets": "plain"}], "li_clients": ["li-*"]}
COMMITS = {"orders": {0: (5, "mine")}, "payments": {0: (5, "mine")}, "free": {0: (5, "mine")}}
APIS = (PLAIN, IN_TRANSACTION, ApiKey.OFFSET_FETCH)
AUDIT_ONLY = {"type": "support.interception:Adds", "topics": ["other"]}


@pytest.mark.parametrize("topics", [[], [{"name": "*", "offsets": "plain"}], [{"name": "*", "enabled": False}]])
def test_without_topics_whose_offsets_may_be_stored_as_li_does_nothing_is_looked_into(topics: list[object]) -> None:
    features = started(AUDIT_ONLY, large_messages={"topics": topics})
    assert [features.exchange(key, 5) for key in APIS] == [None, None, None]


@pytest.mark.parametrize("key", [PLAIN, IN_TRANSACTION])
def test_offsets_of_topics_with_large_messages_are_stored_by_what_consumers_have_read(key: int) -> None:
    features = started(AUDIT_ONLY, large_messages=LARGE)
    assert features.large_messages is not None
    for name in COMMITS:
        features.large_messages.intervals.see_slice(topic_id(name), 0, b"m", 3)
        features.large_messages.intervals.see(topic_id(name), 0, 3, 5)
    frame = commit_request(key, 4, COMMITS)
    exchange = begun(features, key, 4, frame)
    assert exchange is not None
    assert offsets_in(key, 4, exchange.request(frame)) == COMMITS | {"orders": {0: (3, "5,mine")}}
    families = {family.name: family for family in features.families()}
    assert families["large_messages_offsets"].samples == {("wrapped",): 1}


def test_offset_fetch_is_looked_into_for_all_but_clients_of_li() -> None:
    features = started(AUDIT_ONLY, large_messages=LARGE)
    assert begun(features, ApiKey.OFFSET_FETCH, 9, b"") is not None
    assert begun(features, ApiKey.OFFSET_FETCH, 9, b"", FakeClient(client_id="li-7")) is None
