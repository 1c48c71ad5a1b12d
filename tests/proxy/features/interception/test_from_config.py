"""From settings to interceptors: what is wrong is one line with its key."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
from support.in_process import config
from support.interception import Adds, Opened

from kafka_sidecar.interceptors.catalog import InterceptorCatalog, InterceptorSettings
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.features.interception.from_config import NoReport, catalog, describe_interceptors
from kafka_sidecar.proxy.features.interception.interception import Interception, InterceptionStats

REPORT = InterceptionStats(lambda: 0.0)


def made(
    *interceptors: dict[str, Any], previous: InterceptorCatalog | None = None, **settings: Any
) -> InterceptorCatalog:
    given: dict[str, Any] = {**settings, "interceptors": list(interceptors)}
    return catalog(config("a:1", **given), REPORT, previous)


def test_an_interceptor_has_the_settings_of_the_file() -> None:
    found = made(
        {
            "type": "support.interception:Adds", "name": "mine", "topics": ["a", "b*"],
            "budget": "2s", "max_failures": 7, "pause": "3m", "color": "red",
        },
        {"type": "support.interception:Commits"},
        interception={"max_commit_metadata": 5},
    )  # fmt: skip
    mine, other = found.guards
    assert (mine.name, mine.topics, other.name, other.topics) == (
        "mine",
        ("a", "b*"),
        "support.interception:Commits",
        ("*",),
    )
    assert (mine.limits.budget_s, mine.limits.failures, mine.limits.pause_s) == (2, 7, 180)
    assert isinstance(mine.interceptor, Adds)
    assert mine.interceptor.settings == {"color": "red"}
    assert found.committers.max_metadata == 5


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"type": "nowhere:X"}, "interceptors: interceptor nowhere:X: interceptor class X of module nowhere"),
    ({"type": "unheard_of"}, "interceptors: interceptor unheard_of: "),
    (
        {"type": "support.interception:Adds", "name": "n", "wrong": 1},
        "interceptors: interceptor n: wrong: is not a setting",
    ),
    (
        {"type": "support.interception:Opened"},
        "interceptors: interceptor support.interception:Opened: support.interception:Opened: is neither",
    ),
    ({"type": "support.interception:Intercepting"}, "interceptors: interceptor support.interception:Intercepting: "),
]


@pytest.mark.parametrize(("one", "line"), WRONG)
def test_what_is_wrong_is_one_line_with_its_key(one: dict[str, Any], line: str) -> None:
    with pytest.raises(ValueError) as error:
        made(one)
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)


def test_interceptors_that_have_not_changed_go_on_as_they_are_and_the_others_are_closed() -> None:
    same, changed = (
        {"type": "support.interception:Adds", "topics": ["a"]},
        {"type": "support.interception:Adds", "name": "other"},
    )
    first = made(same, changed)
    kept, gone = (guard.interceptor for guard in first.guards)
    second = made({**changed, "color": "red"}, same, previous=first)
    new, again = (guard.interceptor for guard in second.guards)
    assert again is kept
    assert new is not gone
    assert second.guards[1] is first.guards[0]  # with its figures
    del first
    gc.collect()
    assert isinstance(gone, Adds)
    assert isinstance(kept, Adds)
    assert (gone.closed, kept.closed) == (1, 0)


def test_one_whose_files_have_changed_is_loaded_again(tmp_path: Path) -> None:
    file = tmp_path / "a.avsc"
    file.write_text('{"type": "array", "items": "int"}')
    one = {
        "type": "mask_fields",
        "fields": ["$[0]"],
        "schema": {"language": "avro", "file": str(file)},
        "prefix": "none",
    }
    interception = Interception(lambda _: None)
    interception.load(config("a:1", interceptors=[one]))()
    before = interception.catalog
    assert list(interception.files()) == [file]
    assert made(one, previous=before).guards == before.guards
    file.write_text('{"type": "array", "items": "long"}')
    assert made(one, previous=before).guards != before.guards
    file.write_text('{"type": "array", "items": {"type": "array", "items": "int"}}')
    with pytest.raises(ConfigError, match=r"fields: \$\[0\]: an array cannot be masked"):
        interception.load(config("a:1", interceptors=[one]))


def test_of_two_that_are_alike_each_goes_on_as_itself() -> None:
    one = {"type": "support.interception:Adds"}
    first = made(one, one)
    second = made(one, one, one, previous=first)
    assert second.guards[:2] == first.guards
    assert len({id(guard.interceptor) for guard in second.guards}) == 3


def test_interceptors_of_a_configuration_that_cannot_be_are_closed_and_the_old_ones_are_not() -> None:
    one = {"type": "support.interception:Adds"}
    first = made(one)
    with pytest.raises(ValueError):
        made(one, {"type": "support.interception:Adds", "name": "new"}, {"type": "unheard_of"}, previous=first)
    gc.collect()
    new = Opened.opened[-1]
    assert new is not first.guards[0].interceptor
    assert (new.closed, Opened.opened[-2].closed) == (1, 0)


def test_an_interceptor_is_shown_with_its_hooks_and_all_its_settings() -> None:
    own = InterceptorSettings("create_timestamp", "stamp", ("a", "ord*"))
    (found,) = describe_interceptors(InterceptorCatalog([own], NoReport()), "orders")
    assert (found["name"], found["source"], found["disabled"]) == ("stamp", "topics: ord*", False)
    assert found["class"] == "kafka_sidecar.interceptors.builtin.create_timestamp:CreateTimestamp"
    assert found["hooks"] == ["on_send"]
    assert found["settings"] == {}


def test_only_interceptors_of_the_topic_are_shown() -> None:
    own = InterceptorSettings("counting", "tally", ("orders",))
    assert describe_interceptors(InterceptorCatalog([own], NoReport()), "words") == []
