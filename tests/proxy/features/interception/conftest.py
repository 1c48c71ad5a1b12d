"""Patience: on a slow machine a single request may take longer than its turn, and these tests say when others have
theirs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_sidecar.proxy.relay import exchange_driver


@pytest.fixture(autouse=True, scope="module")
def _patient() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchange_driver, "MAX_TURN_S", 0.9)
        yield
