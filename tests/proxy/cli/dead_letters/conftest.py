from __future__ import annotations

import pytest
from support.letter_cluster import FakeCluster


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()
