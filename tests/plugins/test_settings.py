"""Settings of policies, and how an invalid one is reported."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pydantic import Field

from kafka_sidecar.plugins.settings import Settings, describe_settings, read_settings, shown_settings
from kafka_sidecar.plugins.units import Milliseconds, Size
from kafka_sidecar.policies.registry import POLICIES


class Example(Settings):
    size: Size = 1
    """How large."""
    time: Milliseconds | None = None
    """How long."""


class Named(Settings):
    with_: str = Field(default="x", alias="with")
    """A word of Python."""


def test_a_setting_named_like_a_python_keyword_is_reported_as_it_is_configured() -> None:
    with pytest.raises(ValueError, match=r"the settings are with$"):
        read_settings(Named, {"wiht": "y"})


def test_sizes_and_durations_have_units() -> None:
    assert read_settings(Example, {"size": "2MiB", "time": "1m30s500ms"}) == Example(size="2MiB", time="1m30s500ms")  # type: ignore[arg-type]
    assert read_settings(Example, {"size": "2MiB"}).size == 2 << 20
    assert read_settings(Example, {"time": "1d"}).time == 86_400_000
    assert read_settings(Example, {}) == Example()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": "2MB"}, "^size: write a number of bytes or a size"),
        ({"size": True}, "^size: write a number of bytes or a size"),
        ({"size": 1.5}, "^size: write a number of bytes or a size"),
        ({"time": "90"}, "^time: write a duration with its unit"),
        ({"time": ""}, "^time: write a duration with its unit"),
        ({"tiem": "1s"}, r"^tiem is not a setting; did you mean time\? the settings are size, time$"),
    ],
)
def test_an_invalid_setting_is_rejected_with_its_remedy(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_settings(Example, settings)


def test_settings_are_shown_with_all_that_have_a_value_or_as_they_were_given() -> None:
    assert shown_settings(SimpleNamespace(settings=Example(size=5)), {}) == {"size": 5}
    assert shown_settings(SimpleNamespace(settings=None), {"size": "2MiB"}) == {"size": "2MiB"}


@pytest.mark.parametrize("name", POLICIES.built_in)
def test_every_setting_of_a_built_in_has_a_description(name: str) -> None:
    policy = POLICIES.by_name(name)
    assert (policy.__doc__ or "").strip()
    lines = describe_settings(policy)
    assert lines
    assert all(line.endswith(".") for line in lines)
