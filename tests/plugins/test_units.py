"""Sizes and durations have one grammar in the configuration and in the settings of plug-ins."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kafka_sidecar.plugins.units import milliseconds, seconds, size
from kafka_sidecar.policies.registry import POLICIES
from kafka_sidecar.proxy.config.loading import Config, load
from kafka_sidecar.proxy.config.mistakes import ConfigError

DURATIONS = {
    "500ms": 500,
    "5s": 5_000,
    "1m30s": 90_000,
    "2h": 7_200_000,
    "7d": 604_800_000,
    "1.5s": 1_500,
    "0.25h": 900_000,
    "1d1.5h": 91_800_000,
    "1h1ms": 3_600_001,
    "0.1s0.2s": 300,
    "0s": 0,
}  # and their milliseconds
NOT_DURATIONS = [
    "5",
    5,
    5.0,
    "",
    "s",
    "5 s",
    " 5s",
    "-5s",
    "+5s",
    "5w",
    "5s!",
    "1,5s",
    "1.s",
    ".5s",
    "5S",
    "\u0665s",
    True,
]
SIZES = {7: 7, "7": 7, "7B": 7, "64KiB": 65_536, "64 KiB": 65_536, "1MiB": 1 << 20, "2GiB": 2 << 30}
NOT_SIZES = ["64KB", "64k", "64kib", "1.5MiB", "-1", -1, "", True, 1.5, "MiB", "\u0667"]


def loaded(path: Path, **sections: object) -> Config:
    path.write_text(yaml.safe_dump({"bootstrap_servers": "a:1", **sections}))
    return load(path, {}, {})


@pytest.mark.parametrize(("text", "ms"), DURATIONS.items())
def test_a_duration_is_one_or_more_numbers_with_units(text: str, ms: int) -> None:
    assert milliseconds(text) == ms
    assert seconds(text) == ms / 1000


@pytest.mark.parametrize(("text", "number"), SIZES.items())
def test_a_size_is_a_number_of_bytes_or_has_a_unit(text: object, number: int) -> None:
    assert size(text) == number


@pytest.mark.parametrize("text", ["0.5ms", "1.0005s"])
def test_a_fraction_of_a_millisecond_is_rejected_where_milliseconds_are_expected(text: str) -> None:
    assert seconds(text) < 1.001
    with pytest.raises(ValueError, match=f"write a duration of whole milliseconds in place of '{text}'"):
        milliseconds(text)


@pytest.mark.parametrize("text", DURATIONS)
def test_the_program_and_plug_ins_read_the_same_durations(text: str, tmp_path: Path) -> None:
    config = loaded(
        tmp_path / "sidecar.yaml",
        connections={"drain_timeout": text},
        policies={"recent": {"type": "timestamp", "before_max": text}},
    )
    policy, _ = POLICIES.open("recent", "timestamp", None, config.policies["recent"].settings)
    assert config.connections.drain_timeout * 1000 == policy.settings.before_max == DURATIONS[text]  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", SIZES)
def test_the_program_and_plug_ins_read_the_same_sizes(text: str, tmp_path: Path) -> None:
    config = loaded(
        tmp_path / "sidecar.yaml",
        connections={"window": text},
        policies={"small": {"type": "limits", "max_value_bytes": text}},
    )
    policy, _ = POLICIES.open("small", "limits", None, config.policies["small"].settings)
    assert config.connections.window == policy.settings.max_value_bytes == SIZES[text]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "of_program", "of_plug_in"),
    [(text, ("connections", "drain_timeout"), ("timestamp", "before_max")) for text in NOT_DURATIONS]
    + [(text, ("connections", "window"), ("limits", "max_value_bytes")) for text in NOT_SIZES],
)
def test_the_program_and_plug_ins_reject_the_same_with_the_same_message(
    text: object, of_program: tuple[str, str], of_plug_in: tuple[str, str], tmp_path: Path
) -> None:
    (section, setting), (type_, own_setting) = of_program, of_plug_in
    with pytest.raises(ConfigError) as error:
        loaded(tmp_path / "sidecar.yaml", **{section: {setting: text}})
    with pytest.raises(ValueError, match="write a ") as own_error:
        POLICIES.open("own", type_, None, {own_setting: text})
    remedy = str(error.value).rpartition(f"{section}.{setting}: ")[2]
    assert remedy in (
        'write a number of bytes or a size such as "64KiB" or "100MiB"',
        'write a duration with its unit, such as "500ms", "1m30s" or "7d"',
    )
    assert str(own_error.value) == f"policy own: {own_setting}: {remedy}"
