"""What policies decide of a batch as a whole, and by which id a topic's own policy is looked up."""

from __future__ import annotations

import pytest
from support.produce_requests import (
    BAD,
    CORRUPT_MESSAGE,
    FIRST_WITH_IDS,
    FIRST_WITH_RECORD_ERRORS,
    GOOD,
    INVALID_RECORD,
    VERSIONS,
    produce_request,
    read,
    results,
    topic_id,
    validating,
)

from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings
from kafka_sidecar.proxy.features.feature import TopicPolicy
from kafka_sidecar.proxy.features.validation.rules import Rules, TopicRule
from kafka_sidecar.proxy.relay.exchange import Respond

each_version = pytest.mark.parametrize("version", VERSIONS)


@pytest.mark.parametrize("records", [GOOD, BAD], ids=["accepted", "rejected"])
def test_a_damaged_batch_that_can_be_read_is_reported_as_damaged(records: bytes) -> None:
    """A client sends it again then; it gives up a batch with invalid records."""
    damaged = records[:17] + bytes(4) + records[21:]
    _, step = validating().validated(9, {"orders": {0: damaged}})
    if records is GOOD:  # policies do not look at the checksum, the broker does
        assert step == produce_request(9, {"orders": {0: damaged}})
    else:
        assert isinstance(step, Respond)
        assert results(9, step.frame) == [("orders", 0, CORRUPT_MESSAGE, -1)]


@each_version
def test_a_batch_that_is_rejected_as_a_whole_has_no_record_errors(version: int) -> None:
    validation = validating()
    small = PolicyCatalog({"small": PolicySettings("limits", settings={"max_records": 1})})
    validation.rules = Rules(small, [TopicRule("orders", "small", "enforce", 100)], None)
    _, step = validation.validated(version, {"orders": {0: BAD}})
    assert isinstance(step, Respond)
    (partition,) = read(version, step.frame).responses[0].partition_responses
    assert partition.error_code == INVALID_RECORD
    if version >= FIRST_WITH_RECORD_ERRORS:
        assert partition.record_errors == ()
        assert partition.error_message.startswith("small: ")


@each_version
def test_the_policy_that_is_set_on_a_topic_is_looked_up_by_the_id_that_the_client_gives(version: int) -> None:
    asked: list[tuple[str, bytes]] = []

    def topic_config(topic: str, given: bytes) -> TopicPolicy:
        asked.append((topic, given))
        return TopicPolicy("stub")

    validation = validating()
    stub = PolicyCatalog({"stub": PolicySettings("support.policies:Stub")})
    validation.rules = Rules(stub, [], topic_config)
    validation.validated(version, {"orders": {0: GOOD}})
    assert asked == [("orders", topic_id("orders") if version >= FIRST_WITH_IDS else NO_ID)]
