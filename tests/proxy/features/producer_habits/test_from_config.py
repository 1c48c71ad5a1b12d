"""What is wrong with `producers:`, one line for each mistake, and what is shown of an entry."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.features import started

from kafka_sidecar.proxy.config.loading import load
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.features.compose import find_mistakes


def mistakes(folder: Path, *entries: Mapping[str, Any]) -> list[str]:
    """The lines of `kafka-sidecar validate`, without the file's name."""
    file = folder / "sidecar.yaml"
    file.write_text(yaml.safe_dump({"bootstrap_servers": "a:1", "producers": list(entries)}))
    try:
        config = load(file, {}, {}, find_mistakes)
        found = config.error(list(find_mistakes(config)))
    except ConfigError as error:
        found = error
    return [line.split(": ", 1)[1] for line in found.lines]


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"topics": []}, "topics: write at least 1"),
        ({"acks": 0}, "acks: write 'all' or '1'"),
        ({"acks": "some"}, "acks: write 'all' or '1'"),
        ({"compression": ["zst"]}, "compression (entry 1): did you mean zstd? write 'none', 'gzip'"),
        ({"compression": ["lz4", "lz4"]}, "compression: names a codec twice"),
        ({"software": {"librdkafka": "2.0"}}, "software.librdkafka: write the oldest version that is accepted, such"),
        ({"client_id": "(?=x)"}, "client_id: '(?=x)' is not valid in RE2"),
        ({"max_records": 0}, "max_records: write 1 or more"),
        ({"report": False, "min_mean_records": 2}, "min_mean_batch_bytes and min_mean_records need the report"),
        ({"other_software": "reject"}, "other_software has no effect: name client libraries under software"),
        ({"idempotence": True}, "idempotence: write 'required'"),
        ({"ack": "all"}, "ack: is not a setting; did you mean"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_with_key_and_remedy(tmp_path: Path, settings: dict[str, Any], line: str) -> None:
    (found,) = mistakes(tmp_path, {"topics": ["orders"], **settings})
    assert line in found
    assert found.startswith("producers (entry 1)")


def test_an_entry_that_can_never_apply_is_a_mistake(tmp_path: Path) -> None:
    found = mistakes(
        tmp_path,
        {"topics": ["orders-*"], "principals": ["User:alice"]},
        {"topics": ["orders-*", "payments"]},
        {"topics": ["orders-eu"], "acks": "all"},
        {"topics": ["payments", "free"]},
    )
    line = "producers (entry 3).topics: never applies: entry 2 matches all of these topics first; move this entry up"
    assert found == [f"{line}, or remove it"]


def test_a_pattern_that_re2_does_not_accept_is_not_applied() -> None:
    with pytest.raises(ConfigError, match="is not valid in RE2"):
        started(producers=[{"topics": ["orders"], "client_id": "("}])
