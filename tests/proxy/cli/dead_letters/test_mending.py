"""Interceptors that mend: what they make of a record, and what becomes of it if one fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.dead_letters import REASONS

from kafka_sidecar.codec.records import Header
from kafka_sidecar.dead_letters.letters import OutgoingRecord
from kafka_sidecar.proxy.cli.dead_letters.mending import InterceptorMender
from kafka_sidecar.proxy.cli.dead_letters.options import interceptors_of
from kafka_sidecar.proxy.cli.dead_letters.replay import MendError

RECORD = OutgoingRecord("orders", 3, b"k", b"v", (Header(b"\xff", None),), 1_700_000_000_000)
PLUG_IN = """
from kafka_sidecar.interceptors.contract import ProducerInterceptor


class Mend(ProducerInterceptor):
    def on_send(self, record):
        if record.value == b"bad":
            raise ValueError("bad secret")
        return record.replace(value=record.value.upper() + record.context.client_id.encode())
"""


def mender(folder: Path, text: str) -> InterceptorMender:
    (folder / "own.py").write_text(PLUG_IN)
    (folder / "mend.yaml").write_text(text)
    return InterceptorMender(interceptors_of(folder / "mend.yaml"))


def test_built_in_interceptors_change_records_of_their_topics(tmp_path: Path) -> None:
    one = mender(tmp_path, "interceptors:\n  - {type: add_header, topics: [orders], headers: {trace-id: again}}\n")
    assert one.mend(RECORD, REASONS).headers == (Header(b"\xff", None), Header("trace-id", b"again"))
    other = OutgoingRecord("refunds", 0, None, None, (), 0)
    assert one.mend(other, REASONS) is other


def test_own_ones_see_who_has_sent_it_and_a_failure_quotes_nothing(tmp_path: Path) -> None:
    one = mender(tmp_path, "interceptors:\n  - {type: 'own:Mend', class_path: .}\n")
    mended = one.mend(RECORD, REASONS)
    assert (mended.topic, mended.partition, mended.key, mended.value, mended.timestamp) == (
        "orders", 3, b"k", b"Vshop", RECORD.timestamp,
    )  # fmt: skip
    bad = OutgoingRecord("orders", 0, None, b"bad", (), 0)
    for _ in range(200):  # never disabled: then records would be sent as they are
        with pytest.raises(MendError) as raised:
            one.mend(bad, REASONS)
        assert "secret" not in str(raised.value)
    assert one.mend(RECORD, REASONS).value == b"Vshop"
