"""The command line about policies: try them on records, list them, tell what holds for a topic.

Exit codes: 0 every record may pass, 1 some may not, 2 the configuration, a flag or the input is wrong.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.proxy.cli.plugin_list import listed, loaded, refuse

if TYPE_CHECKING:
    from kafka_sidecar.policies.contract import Hints
    from kafka_sidecar.policies.plans import Plan, Rejection
    from kafka_sidecar.policies.testing import Example
    from kafka_sidecar.proxy.validation.rules import Rules

policy_app = typer.Typer(no_args_is_help=True, help="About the policies that judge records.")
ANY_TOPIC = "topic"

ConfigFile = Annotated[Path | None, typer.Option("--config", "-c", help="YAML file with policies and topics.")]
GivenConfig = Annotated[Path, typer.Option("--config", "-c", help="YAML file with policies and topics.")]


@policy_app.command("test")
def try_records(
    file: Annotated[str, typer.Argument(help="Records, one JSON object a line; - for standard input.")],
    config: ConfigFile = None,
    policy: Annotated[
        str | None, typer.Option(help="The policies to try, as a topic's record.validation.policy.")
    ] = None,
    topic: Annotated[str | None, typer.Option(help="The topic that the records are for.")] = None,
) -> None:
    """Judge the records of a file: one verdict a line."""
    plan = _plan(config, policy, topic)
    refused = False
    for number, example in _examples(file):
        found = _judged(plan, example, topic or ANY_TOPIC)
        refused |= bool(found)
        typer.echo(f"{number}: {_verdict(found)}")
    raise typer.Exit(1 if refused else 0)


@policy_app.command("list")
def show(config: ConfigFile = None) -> None:
    """List the policies that topics can name, where they come from and their settings."""
    from kafka_sidecar.policies.registry import POLICIES

    entries = loaded(config).policies if config else {}
    own = [(name, one.type or name, one.class_path) for name, one in entries.items()]
    typer.echo("\n".join(listed(POLICIES, own, config)))


@policy_app.command("explain")
def explain(topic: Annotated[str, typer.Argument(help="The topic's name.")], config: GivenConfig) -> None:
    """Tell which policies the configuration file has for a topic, and why.

    What is set on the topic itself with Kafka's tools goes before the file, and is known to a running sidecar only.
    """
    applied = _rules(config).of(topic, NO_ID)
    if applied is None:
        typer.echo(f"{topic}: records are not looked at; {_why_not(config, topic)}")
        return
    typer.echo(f"{topic}: {applied.text}")
    typer.echo(f"  from {applied.source} in {config}")
    some = applied.mode == "enforce" and applied.percent < 100
    others = f" for {applied.percent} % of the batches, shadow for the others" if some else ""
    typer.echo(f"  mode {applied.mode}{others}")
    for number, rule in enumerate(applied.plan.rules, 1):
        kind = f"{type(rule.policy).__module__}:{type(rule.policy).__qualname__}"
        argument = f" with {rule.text!r}" if rule.text else ""
        failing = "lets pass" if rule.fail_open else "refuses"
        typer.echo(f"  {number}. {rule.name}{argument}: {kind}; looks at {_looks_at(rule.hints)}; {failing} on failure")


def _plan(config: Path | None, policy: str | None, topic: str | None) -> Plan:
    """What is to be tried: the text that is given, or what the configuration has for the topic."""
    from kafka_sidecar.policies.catalog import PolicyCatalog
    from kafka_sidecar.proxy.validation.from_config import catalog

    if policy is not None:
        wrong = f"{config}: policies"
        try:
            policies = catalog(loaded(config), _ignore) if config else PolicyCatalog({})
            wrong = "--policy"
            return policies.plan(policy)
        except ValueError as error:
            refuse(f"{wrong}: {error}")
    if config is None or topic is None:
        refuse("say what to try: --policy TEXT, or --config FILE and --topic NAME")
    applied = _rules(config).of(topic, NO_ID)
    if applied is None:
        refuse(f"{topic}: {_why_not(config, topic)}; name one with --policy")
    return applied.plan


def _why_not(config: Path, topic: str) -> str:
    """Why no policy holds for a topic."""
    entry = next((entry for entry in loaded(config).topics if fnmatchcase(topic, entry.name)), None)
    if entry is None:
        return f"no entry of topics: in {config} fits its name"
    return f"topics: {entry.name} in {config} has " + ("no policy" if entry.policy is None else "mode off")


def _judged(plan: Plan, example: Example, topic: str) -> list[Rejection] | Exception:
    """What is refused, or what hindered the judging."""
    from kafka_sidecar.policies.plans import PolicyFailedError, ResolveRequired
    from kafka_sidecar.policies.testing import check_plan

    asked: set[object] = set()
    while True:
        try:
            return check_plan(plan, [example], topic)
        except PolicyFailedError as failed:
            return failed
        except ResolveRequired as waiting:
            if waiting.key in asked:
                return RuntimeError(f"policy {waiting.rule.name} asks twice for the same")
            asked.add(waiting.key)
            try:
                asyncio.run(waiting.rule.policy.resolve(waiting.key))
            except Exception as error:  # noqa: BLE001 - whatever a policy's resolve raises is its failure
                return RuntimeError(f"policy {waiting.rule.name} could not resolve: {error}")


def _verdict(found: list[Rejection] | Exception) -> str:
    if isinstance(found, Exception):
        because = f": {found.__cause__}" if found.__cause__ is not None else ""
        return f"failed: {found}{because}"
    if not found:
        return "accepted"
    return f"refused by {found[0].policy} ({found[0].reason}): {found[0].message}"


def _examples(file: str) -> Iterator[tuple[int, Example]]:
    from kafka_sidecar.proxy.cli.record_lines import BadExampleError, example

    try:
        with nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield number, example(line)
    except OSError as error:
        refuse(f"{file}: cannot be read: {error.strerror}")
    except BadExampleError as error:
        refuse(f"{file}:{number}: {error}")


def _looks_at(hints: Hints) -> str:
    from kafka_sidecar.policies.contract import ALL

    sizes = {"key": hints.access_key_bytes, "value": hints.access_value_bytes}
    parts = [f"the {part}" if size == ALL else f"{size} bytes of the {part}" for part, size in sizes.items() if size]
    parts += ["headers"] if hints.access_headers else []
    parts += ["sizes and timestamps"] if hints.access_metadata else []
    return ", ".join(parts) or "the batch's own header, which is never decompressed"


def _rules(config: Path) -> Rules:
    from kafka_sidecar.proxy.validation.from_config import rules

    try:
        return rules(loaded(config), _ignore, None)
    except ValueError as error:
        refuse(f"{config}: {error}")


def _ignore(policy: str, error: BaseException) -> None:
    typer.echo(f"kafka-sidecar: policy {policy} failed and lets pass: {type(error).__name__}: {error}", err=True)
