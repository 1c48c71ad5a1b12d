"""A cluster with two topics."""

from __future__ import annotations

import pytest
from support.topic_configs import Cluster


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(ids={"orders": b"o" * 16, "payments": b"p" * 16})
