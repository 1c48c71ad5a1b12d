"""The topics of the sidecar's own clients: created once, and used where they may not be created."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.proxy.runtime.aiokafka_clients import GO_ON, create_topic


class Admin:
    def __init__(self, code: int) -> None:
        self.code = code
        self.wanted: list[Any] = []

    async def create_topics(self, topics: list[Any], timeout_ms: int) -> Any:
        self.wanted += topics
        return SimpleNamespace(topic_errors=[(topics[0].name, self.code, "why")])


@pytest.mark.parametrize("code", sorted(GO_ON))
async def test_a_topic_is_created_unless_it_exists_or_may_not_be(code: int) -> None:
    admin = Admin(code)
    await create_topic(admin, "events", -1, -1, {"cleanup.policy": "compact"}, 1000)
    (wanted,) = admin.wanted
    assert (wanted.name, wanted.num_partitions, wanted.replication_factor) == ("events", -1, -1)
    assert wanted.topic_configs == {"cleanup.policy": "compact"}


async def test_a_topic_that_cannot_be_created_is_an_error() -> None:
    with pytest.raises(OSError, match=r"the topic events cannot be created: \['why'\]"):
        await create_topic(Admin(ErrorCode.INVALID_CONFIG), "events", 1, 9, {}, 1000)
