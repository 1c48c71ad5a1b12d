"""What is accepted as a message, against Google's Java implementation."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.pages import ROOT
from support.protobuf_values import damaged, files, message_class, values

from kafka_sidecar.schemas.protobuf.schema import ProtobufSchema

pytestmark = pytest.mark.integration  # needs a JDK and Maven
REFERENCE = ROOT / "tests/jvm/protobuf"
BIG_TAG = "what is no tag of a field"


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("protobuf-java")
    copy = ["mvn", "-q", "-B", "-f", str(REFERENCE / "pom.xml"), "dependency:copy-dependencies"]
    subprocess.run([*copy, "-DincludeScope=runtime", f"-DoutputDirectory={folder}"], check=True)
    return folder


def examples(count: int) -> list[tuple[bytes, list[bytes]]]:
    """Files, and values of their first type, most of them damaged."""
    found: list[tuple[bytes, list[bytes]]] = []

    @settings(
        max_examples=count, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(st.data())
    def collect(data: st.DataObject) -> None:
        file = data.draw(files())
        kind = message_class(file, "p.M0")
        written = data.draw(values(kind)).SerializePartialToString()
        others = [data.draw(damaged(written)) for _ in range(4)]
        found.append((file.SerializeToString(), [written, *others, data.draw(st.binary(max_size=20))]))

    collect()
    return found


def test_what_is_accepted_is_what_googles_java_accepts(classes: Path) -> None:
    rows = examples(400)
    text = "".join(f"{in_base64(file)} M0 {' '.join(map(in_base64, own))}\n" for file, own in rows)
    java = ["java", "-cp", f"{classes}/*", str(REFERENCE / "ProtobufReference.java")]
    verdicts = subprocess.run(java, input=text, capture_output=True, text=True, check=True).stdout.split()
    assert len(verdicts) == len(rows)
    seen = set()
    for (file, own), answers in zip(rows, verdicts, strict=True):
        schema = ProtobufSchema.from_descriptor(file)
        for value, answer in zip(own, answers, strict=True):
            fault = schema.fault_of(value, 0, len(value))
            seen.add((fault is None, answer))
            if fault is None and answer == "0":
                # Java requires UTF-8 of the texts of maps in any syntax; upb, as this, where the schema says so.
                assert "\ufffd" in repr(schema.decode(value, 0, len(value))), value.hex()
            elif fault is not None and answer == "1":
                # Java drops the bits of a tag that are beyond 32; upb, as this, does not take it.
                assert fault.rule == BIG_TAG, value.hex()
    assert {(True, "1"), (False, "0")} <= seen


def in_base64(data: bytes) -> str:
    return base64.b64encode(data).decode() or "-"
