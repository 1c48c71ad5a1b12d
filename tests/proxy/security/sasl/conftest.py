"""The section with which the sidecar logs in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.secured_broker import PASSWORD

from kafka_sidecar.proxy.runtime import dialer


@pytest.fixture(name="brokers")
def _brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The section with a password that the broker accepts."""
    monkeypatch.setattr(dialer, "REJECTED_PAUSE_S", 0.01)
    (tmp_path / "password").write_text(PASSWORD)
    sasl = {"mechanism": "PLAIN", "username": "app", "password_file": tmp_path / "password"}
    return {"security_protocol": "SASL_PLAINTEXT", "sasl": sasl}
