"""The section of the export to a collector."""

from __future__ import annotations

import pytest
from support.in_process import config

from kafka_sidecar.proxy.config.mistakes import ConfigError


def test_nothing_is_exported_by_default() -> None:
    assert config("a:1").otlp.endpoint is None


@pytest.mark.parametrize("wrong", [{"endpoint": "collector:4318"}, {"sample": 2}, {"interval": "0s"}])
def test_wrong_settings_are_rejected(wrong: dict[str, object]) -> None:
    with pytest.raises((ConfigError, ValueError)):
        config("a:1", otlp=wrong)
