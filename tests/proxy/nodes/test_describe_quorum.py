"""DescribeQuorum responses without the listeners of controllers, which the sidecar does not relay (KIP-853)."""

from __future__ import annotations

import pytest
from support import oracle
from support.broker_responses import DOMAIN, TOPIC_ID, asked
from support.dialogue import Dialogue

from kafka_sidecar.codec.apis import ApiKey

KEY = ApiKey.DESCRIBE_QUORUM
VOTER = {"replica_id": 7, "replica_directory_id": TOPIC_ID, "log_end_offset": 5}
PARTITION = {"partition_index": 0, "leader_id": 7, "leader_epoch": 2, "high_watermark": 5, "current_voters": [VOTER]}
LISTENERS = [{"name": "CONTROLLER", "host": "controller-7.internal", "port": 9093}]


def described(version: int, listeners: list[dict[str, object]]) -> bytes:
    topics = [{"topic_name": "__cluster_metadata", "partitions": [PARTITION]}]
    nodes = [{"node_id": 7, "listeners": listeners}]
    return oracle.response_frame(oracle.response(KEY, version, topics=topics, nodes=nodes), 1)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_quorum_is_described_without_the_addresses_of_its_controllers(version: int) -> None:
    dialogue = Dialogue().client(asked(KEY, version)).broker(described(version, LISTENERS))
    assert dialogue.to_client == described(version, [])
    assert DOMAIN not in dialogue.to_client
    assert dialogue.nodes == {}
