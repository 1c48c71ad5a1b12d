"""The commands `policy test`, `policy list` and `policy explain`.

Exit codes: 0 all records are accepted, 1 one is rejected or a policy failed, 2 the configuration, a flag or the input
is invalid.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.proxy.cli.output import exit_with_error, list_plugins, load_or_exit, load_valid_or_exit, say

if TYPE_CHECKING:
    from kafka_sidecar.policies.plans import Plan, Rejection
    from kafka_sidecar.policies.testing import Example
    from kafka_sidecar.proxy.features.validation.rules import Rules

policy_app = typer.Typer(no_args_is_help=True, help="Policies, which validate records.")
ANY_TOPIC = "topic"

ConfigFile = Annotated[Path | None, typer.Option("--config", "-c", help="YAML file with policies and topics.")]
GivenConfig = Annotated[Path, typer.Option("--config", "-c", help="YAML file with policies and topics.")]


@policy_app.command("test")
def validate_records(
    file: Annotated[str, typer.Argument(help="Records, one JSON object a line; - for standard input.")],
    config: ConfigFile = None,
    policy: Annotated[
        str | None, typer.Option(help="The policies to test, as a topic's record.validation.policy.")
    ] = None,
    topic: Annotated[str | None, typer.Option(help="The topic of the records.")] = None,
) -> None:
    """Validate the records of a file: one verdict per line."""
    from kafka_sidecar.proxy.cli.record_lines import read_examples

    plan = _plan(config, policy, topic)
    rejected = False
    for number, example in read_examples(file):
        found = _validate(plan, example, topic or ANY_TOPIC)
        rejected |= bool(found)
        say(f"{number}: {_verdict(found)}")
    raise typer.Exit(1 if rejected else 0)


@policy_app.command("list")
def show(config: ConfigFile = None) -> None:
    """List the policies that topics can use.

    Each with its source, and its settings with their defaults.
    """
    from kafka_sidecar.policies.registry import POLICIES

    entries = load_or_exit(config).policies if config else {}
    own = [(name, one.type or name, one.class_path) for name, one in entries.items()]
    say(*list_plugins(POLICIES, own, config))


@policy_app.command("explain")
def explain(topic: Annotated[str, typer.Argument(help="The topic's name.")], config: GivenConfig) -> None:
    """Print the policies of a topic, or why it has none.

    A policy set on the topic itself with Kafka's tools overrides the file; only a running sidecar knows it.
    """
    from kafka_sidecar.proxy.features.validation.rules import parts_read
    from kafka_sidecar.proxy.telemetry.readable import hide_secrets

    rules = _rules(config)
    applied = rules.of(topic, NO_ID)
    if applied is None:
        say(f"{topic}: records are not validated; in {config}, {rules.why_none(topic)}")
        _explain_consumers(rules, topic)
        return
    say(f"{topic}: {applied.text}")
    say(f"  from {applied.source} in {config}")
    some = applied.mode == "enforce" and applied.percent < 100
    others = f" for {applied.percent} % of the batches, shadow for the others" if some else ""
    say(f"  mode {applied.mode}{others}")
    for number, rule in enumerate(applied.plan.rules, 1):
        kind = f"{type(rule.policy).__module__}:{type(rule.policy).__qualname__}"
        argument = f" with {rule.text!r}" if rule.text else ""
        failing = "open" if rule.fail_open else "closed"
        given = f"; settings {json.dumps(hide_secrets(dict(rule.settings)))}" if rule.settings else ""
        say(f"  {number}. {rule.name}{argument}: {kind}; reads {parts_read(rule.hints)}; fails {failing}{given}")
    _explain_consumers(rules, topic)


def _explain_consumers(rules: Rules, topic: str) -> None:
    """What consumers get of stored records, if their policy says something about it."""
    consumed = rules.consumed(topic, NO_ID)
    if consumed is not None:
        does = "are hidden from consumers" if consumed.action == "hide" else f"get the header {consumed.header}"
        say(f"  stored records that {consumed.applied.text} rejects {does}")


def _plan(config: Path | None, policy: str | None, topic: str | None) -> Plan:
    """The policies of --policy, or those that the configuration has for the topic."""
    from kafka_sidecar.policies.catalog import PolicyCatalog
    from kafka_sidecar.proxy.features.validation.from_config import catalog

    if policy is not None:
        source = f"{config}: policies"
        try:
            policies = catalog(load_or_exit(config), _warn) if config else PolicyCatalog({})
            source = "--policy"
            return policies.plan(policy)
        except ValueError as error:
            exit_with_error(f"{source}: {error}")
    if config is None or topic is None:
        exit_with_error("no policies to test: give --policy TEXT, or --config FILE and --topic NAME")
    rules = _rules(config)
    applied = rules.of(topic, NO_ID)
    if applied is None:
        exit_with_error(f"{topic}: in {config}, {rules.why_none(topic)}; give one with --policy")
    return applied.plan


def _validate(plan: Plan, example: Example, topic: str) -> list[Rejection] | Exception:
    """The rejections of a record, or the failure of a policy."""
    from kafka_sidecar.policies.plans import PolicyFailedError, ResolveRequired
    from kafka_sidecar.policies.testing import check_plan

    resolved: set[object] = set()
    while True:
        try:
            return check_plan(plan, [example], topic)
        except PolicyFailedError as failed:
            return failed
        except ResolveRequired as waiting:
            if waiting.key in resolved:
                return RuntimeError(f"policy {waiting.rule.name} requests the same key again after it was resolved")
            resolved.add(waiting.key)
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
    return f"rejected by {found[0].policy} ({found[0].reason}): {found[0].message}"


def _rules(config: Path) -> Rules:
    from kafka_sidecar.proxy.features.validation.from_config import rules

    return rules(load_valid_or_exit(config), _warn, None)


def _warn(policy: str, error: BaseException) -> None:
    say(f"kafka-sidecar: policy {policy} failed open: {type(error).__name__}: {error}", err=True)
