"""The reference has exactly the settings, metrics, log keys, log messages and causes of the program."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import BaseModel
from support.all_metrics import all_metrics
from support.pages import all_pages, modules, page, settings, tree

from kafka_sidecar.proxy.config.large_messages import LargeTopic
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.producers import ProducerHabits
from kafka_sidecar.proxy.config.registries import SchemaRegistry
from kafka_sidecar.proxy.config.reload import RELOADED
from kafka_sidecar.proxy.config.sections import Interceptor, Policy, Topic
from kafka_sidecar.proxy.config.topic_guards import TopicGuard
from kafka_sidecar.proxy.server.admin.exposition import render
from kafka_sidecar.proxy.server.workers.totals import NOT_SUMS
from kafka_sidecar.proxy.telemetry.logs import KEYS

KEYS_OF_EVERY_LINE = {"timestamp", "level", "logger", "message", "traceback"}


def defaults(section: type[BaseModel] = Config, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Each setting that has a default, and how the documentation writes it."""
    for name, about in section.model_json_schema()["properties"].items():
        field = section.model_fields[name]
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from defaults(field.annotation, f"{prefix}{name}.")
        elif about.get("default") not in (None, []):
            is_size = "string" in about.get("type", ())
            default = json.dumps(about["default"]) if isinstance(about["default"], bool) else str(about["default"])
            yield prefix + name, written(about["default"]) if is_size else default


def written(value: object) -> str:
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if isinstance(value, int) and value >= size and value % size == 0:
            return f"{value // size}{unit}"
    return str(value)


def test_the_headings_are_exactly_the_settings() -> None:
    headings = [title for title in page("docs/reference/configuration.md").titles(2) if re.fullmatch("[a-z_.]+", title)]
    assert sorted(headings) == sorted(settings())


@pytest.mark.parametrize(
    ("section", "kind"),
    [
        ("schema_registries", SchemaRegistry),
        ("policies", Policy),
        ("topics", Topic),
        ("producers", ProducerHabits),
        ("interceptors", Interceptor),
        ("large_messages.topics", LargeTopic),
        ("topic_guards", TopicGuard),
    ],
)
def test_the_rows_are_exactly_the_keys_of_an_entry(section: str, kind: type[BaseModel]) -> None:
    assert set(page("docs/reference/configuration.md").first_column(section)) == set(kind.model_fields)


def test_every_default_is_documented() -> None:
    reference = page("docs/reference/configuration.md")
    missing = [
        f"{setting}: {default}"
        for setting, default in defaults()
        if not re.search(rf"[Dd]efault:? `?{re.escape(default)}\b", reference.section(setting))
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("docs/reference/configuration.md", r"^(.+) then apply to every request that starts after that"),
        ("docs/how-to/runbook.md", r"^\| `changed settings need a restart` \| Settings other than (.+) have changed"),
    ],
)
def test_the_sections_that_a_reload_applies_are_listed(name: str, line: str) -> None:
    (listed,) = re.findall(line, page(name).text, re.MULTILINE)
    assert sorted(re.findall("`(.+?)`", listed)) == sorted(RELOADED)


@cache
def metric_names() -> frozenset[str]:
    """The names that Prometheus sees."""
    families = text_string_to_metric_families(render(all_metrics()).decode())
    return frozenset(family.name + ("_total" if family.type == "counter" else "") for family in families)


def test_the_headings_are_exactly_the_metrics() -> None:
    reference, names = page("docs/reference/metrics.md"), metric_names()
    own = {name for name in names if name.startswith("kafka_sidecar_")}
    assert {title for title in reference.titles(3) if title.startswith("kafka_sidecar_")} == own
    assert [name for name in names - own if f"`{name}`" not in reference.text and name not in reference.titles(3)] == []


def made_metrics() -> Iterator[str]:
    """The names in calls that make a metric: text, or a name of the module and text."""
    shown_live = Path("proxy/server/admin/live/traffic.py")  # for readers of the page alone, never for Prometheus
    for path in set(modules("proxy")) - {shown_live}:
        names: dict[str, str] = {}
        for node in tree(path).body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                    names[name] = text
        for call in ast.walk(tree(path)):
            match call:
                case ast.Call(func=ast.Name(id="counter" | "gauge" | "histogram" as kind), args=[first, *_]):
                    total = "_total" if kind == "counter" else ""
                    match first:
                        case ast.Constant(value=str(name)):
                            yield f"kafka_sidecar_{name}{total}"
                        case ast.BinOp(left=ast.Name(id=start), right=ast.Constant(value=str(name))) if start in names:
                            yield f"kafka_sidecar_{names[start]}{name}{total}"


def test_every_metric_that_the_program_makes_is_among_those_that_are_compared() -> None:
    """`all_metrics` is written by hand: what is missing there would be in no reference and on no dashboard."""
    made = set(made_metrics())
    assert len(made) > 90
    assert made - metric_names() == set()


def test_a_section_that_a_feature_follows_as_it_is_now_is_reloaded() -> None:
    followed = {
        node.attr
        for node in ast.walk(tree(Path("proxy/features/compose.py")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "now"
    }
    assert len(followed) > 5
    assert (followed & set(Config.model_fields)) - RELOADED == set()


def test_every_metric_in_the_documentation_exists() -> None:
    metric, known = re.compile(r"\bkafka_sidecar_[a-z_]+[a-z]\b"), {*metric_names(), "kafka_sidecar"}
    named = {
        (a_page.name, word.removesuffix("_bucket")) for a_page in all_pages() for word in metric.findall(a_page.text)
    }
    assert {(name, word) for name, word in named if word not in known} == set()


def test_no_name_of_a_metric_is_shortened() -> None:
    """Or no test would notice that there is no such metric."""
    shortened = re.compile(r"(?:\.\.\.|…)_[a-z_]+")
    assert {(a_page.name, word) for a_page in all_pages() for word in shortened.findall(a_page.text)} == set()


def test_the_metrics_of_workers_that_are_not_added_up_exist() -> None:
    assert set(NOT_SUMS) <= metric_names()


def strings(node: ast.AST) -> set[str]:
    return {part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)}


def log_calls() -> Iterator[tuple[str, ast.Call]]:
    """Every call of a logger in the program: where it is, and the call."""
    for path in [*modules("proxy"), *modules("schemas"), *modules("outbound")]:
        for node in ast.walk(tree(path)):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="log"), attr=what)) if what != "isEnabledFor":
                    yield f"{path}:{node.lineno}", node


def message_of(where: str, call: ast.Call) -> str:
    at = 1 if isinstance(call.func, ast.Attribute) and call.func.attr == "log" else 0
    match call.args[at]:
        case ast.Constant(value=str(message)):
            return message
    raise AssertionError(f"{where}: a message says what happened, keys say to whom")


def test_the_headings_are_exactly_the_log_keys() -> None:
    assert set(page("docs/reference/log-lines.md").titles(3)) == KEYS | KEYS_OF_EVERY_LINE


def test_the_rows_are_exactly_the_log_messages() -> None:
    listed = page("docs/reference/log-lines.md").section("Messages")
    messages = re.findall(r"^\| `([^`]+)` \|", listed, re.MULTILINE)
    assert sorted(messages) == sorted({message_of(where, call) for where, call in log_calls()})


def test_a_warning_or_error_has_its_line_in_the_runbook() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| (\w+)", page("docs/reference/log-lines.md").section("Messages"), re.MULTILINE)
    listed = page("docs/how-to/runbook.md").first_column("Log messages")
    assert [message for message, level in rows if level in ("warning", "error") and message not in listed] == []


def causes() -> set[str]:
    """The label values of kafka_sidecar_disconnects_total, from where connections are ended."""
    found: set[str] = set()
    for path in modules("proxy"):
        for node in ast.walk(tree(path)):
            match node:
                case ast.Call(func=ast.Name(id="Closing" | "RouteError"), args=[ast.Constant(value=str(cause)), *_]):
                    found.add(cause)
                case ast.Call(func=ast.Attribute(attr="lost" | "__init__"), args=[ast.Constant(value=str(cause)), *_]):
                    found.add(cause)
                case ast.Call(func=ast.Name(id="Last"), args=[_, ast.Constant(value=str(cause)), _]):
                    found.add(cause)
                case ast.Call(func=ast.Attribute(attr="_fail"), args=[_, ast.Constant(value=str(cause))]):
                    found.add(cause)
                case ast.Assign(targets=[ast.Name(id="cause")], value=value):
                    found |= strings(value)
                case ast.Assign(
                    targets=[ast.Tuple(elts=[ast.Name(id="cause"), *_])], value=ast.Tuple(elts=[value, *_])
                ):
                    found |= strings(value)
    return found


def test_every_cause_of_a_disconnect_has_its_line_in_the_runbook() -> None:
    assert set(page("docs/how-to/runbook.md").first_column("Disconnect causes")) == causes()
