"""Where letters go, and that none goes in circles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.plugins.patterns import matches, may_overlap
from kafka_sidecar.proxy.config.dead_letters import TopicDeadLetters
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.features.dead_letters.from_config import Target, Targets, find_mistakes


def section(topic: str, **settings: Any) -> TopicDeadLetters:
    return TopicDeadLetters.model_validate({"topic": topic, **settings})


def mistakes(text: str) -> list[str]:
    config = Config.model_validate({"bootstrap_servers": "kafka:9092", **yaml.safe_load(text)})
    return [f"{'.'.join(map(str, one.location))}: {one.text}" for one in find_mistakes(config)]


def test_the_first_entry_that_matches_says_where_letters_go() -> None:
    targets = Targets([("*.dlq", None), ("orders", section("bad-orders")), ("*", section("{topic}.dlq", shadow=True))])
    assert targets.of("orders") == Target("bad-orders", False, "batch", "loop")  # bad-orders is one of *
    assert targets.of("payments") == Target("payments.dlq", True, "batch")
    assert targets.of("payments.dlq") is None
    assert targets.of("p" * 246) == Target("p" * 246 + ".dlq", True, "batch", "no_topic")


def test_no_letters_go_to_a_topic_of_the_sidecar() -> None:
    targets = Targets([("a*", section("{topic}udit"))], ["audit"])
    assert targets.of("a") == Target("audit", False, "batch", "loop")


def test_topics_that_are_known_before_any_letter_are_named() -> None:
    entries = [("orders", section("{topic}.dlq")), ("a*", section("{topic}.dlq")), ("b*", section("all.dlq"))]
    assert Targets([*entries, ("c", None)]).names() == ["orders.dlq", "all.dlq"]


@pytest.mark.parametrize(
    ("topics", "found"),
    [
        ('[{name: orders, dead_letters: orders.dlq}]', 0),
        ('[{name: orders, dead_letters: orders}]', 1),
        ('[{name: "*", dead_letters: "{topic}.dlq"}]', 1),
        ('[{name: "*.dlq"}, {name: "*", dead_letters: "{topic}.dlq"}]', 0),
        ('[{name: "x*"}, {name: "*", dead_letters: "{topic}.dlq"}]', 1),
        ('[{name: "*", mode: "off", dead_letters: "{topic}.dlq"}]', 0),
        ('[{name: a, dead_letters: b}, {name: b, dead_letters: c}]', 1),
        ('[{name: a, dead_letters: b}, {name: "?", policy: json}]', 0),
        ('[{name: "orders-*", dead_letters: "dlq-{topic}"}, {name: "dlq-*", dead_letters: lost}]', 1),
        ('[{name: "orders-*", dead_letters: "dlq-{topic}"}, {name: "dlq-p*", dead_letters: lost}]', 0),
    ],
)  # fmt: skip
def test_letters_that_would_go_in_circles_are_a_mistake(topics: str, found: int) -> None:
    assert len(mistakes(f"topics: {topics}")) == found


def test_a_loop_is_explained_with_its_remedy() -> None:
    [text] = mistakes('topics: [{name: "*", dead_letters: "{topic}.dlq"}]')
    assert text == (
        "topics.0.dead_letters: *.dlq has dead letters itself, by entry 1, *: letters would go in circles; add an "
        "entry for *.dlq without dead_letters before that one"
    )


@pytest.mark.parametrize("name", ["audit", "access", "configs", "__consumer_offsets"])
def test_a_topic_of_others_is_no_dead_letter_topic(name: str) -> None:
    found = mistakes(
        "audit: {topic: audit, access_topic: access, access: all}\ntopic_configs: {topic: configs}\n"
        f"topics: [{{name: orders, dead_letters: {name}}}]"
    )
    assert len(found) == 1
    assert found[0].startswith(f"topics.0.dead_letters: {name} is ")


def test_a_folder_that_cannot_be_used_is_a_mistake(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    topics = "topics: [{name: a, dead_letters: b}]"
    assert mistakes(f"{topics}\ndead_letters: {{spool_folder: {tmp_path}/new}}") == []
    assert len(mistakes(f"{topics}\ndead_letters: {{spool_folder: {file}}}")) == 1
    assert len(mistakes(f"{topics}\ndead_letters: {{spool_folder: {tmp_path}/none/new}}")) == 1


patterns = st.text("ab*?", max_size=5)


@given(patterns, patterns, st.lists(st.text("abc", max_size=6), max_size=20))
def test_patterns_that_share_a_name_overlap(one: str, other: str, names: list[str]) -> None:
    if any(matches(name, [one]) and matches(name, [other]) for name in names):
        assert may_overlap(one, other)


@given(st.text("ab?", max_size=4), st.text("ab?", max_size=4))
def test_patterns_without_stars_overlap_where_each_letter_does(one: str, other: str) -> None:
    is_same = len(one) == len(other) and all(a == b or "?" in (a, b) for a, b in zip(one, other, strict=False))
    assert may_overlap(one, other) == is_same
