"""The command `clean-objects`: what is left in the object store of large messages, and no record refers to."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_sidecar.plugins.patterns import matches
from kafka_sidecar.plugins.units import seconds
from kafka_sidecar.proxy.cli.output import exit_with_error, say, table
from kafka_sidecar.proxy.cli.run import BootstrapServers, ConfigFile
from kafka_sidecar.proxy.config.loading import Config, load
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.telemetry.logs import without_controls

if TYPE_CHECKING:
    from kafka_sidecar.proxy.features.large_messages.clean_up import Cleaned

TITLES = ("topic", "objects", "referenced", "young", "unreferenced", "bytes", "deleted")


def clean_objects(
    config: ConfigFile = None,
    bootstrap_servers: BootstrapServers = None,
    older_than: Annotated[str, typer.Option(help="The age of objects that may be deleted, at least 1h.")] = "24h",
    delete: Annotated[bool, typer.Option("--delete", help="Delete them. Without it, only count them.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for each topic.")] = False,
) -> None:
    """Find objects to which no record refers."""
    from kafka_sidecar.proxy.features.large_messages.clean_up import MIN_AGE_S

    try:
        age_s = seconds(older_than)
    except ValueError as error:
        exit_with_error(f"--older-than: {error}")
    if age_s < MIN_AGE_S:
        exit_with_error(f"--older-than: {older_than} is too short, its record may come any moment: write at least 1h")
    try:
        settings = load(config, os.environ, {"bootstrap_servers": bootstrap_servers})
        found = asyncio.run(_clean(settings, age_s, not delete))
    except (ConfigError, OSError) as error:
        exit_with_error(str(error))
    _print(found, as_json)
    if any(one.trouble for one in found):
        raise typer.Exit(1)


async def _clean(config: Config, age_s: float, is_dry: bool) -> list[Cleaned]:
    """Raises ConfigError, OSError."""
    from kafka_sidecar.proxy.features.large_messages.clean_up import ObjectListing, TopicReferences, clean_topic
    from kafka_sidecar.proxy.security.sasl.broker_logins import open_broker_logins
    from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess
    from kafka_sidecar.proxy.security.tls.live_tls import TlsSides

    large = config.large_messages
    if large.object_store is None:
        raise ConfigError("large_messages.object_store is missing: name the store to clean")
    try:
        store = ObjectListing(large.object_store, large.object_store_options)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    access = BrokerAccess(
        config.connections.source_address, TlsSides(config).brokers, open_broker_logins(config, Counter())
    )
    references = TopicReferences(config.bootstrap_servers, access, _show_progress)
    topics = [topic for topic in await store.topics() if _is_stored_as_objects(topic, config)]
    now = time.time()
    return [await clean_topic(topic, store, references, age_s, now, is_dry) for topic in topics]


def _is_stored_as_objects(topic: str, config: Config) -> bool:
    rules = config.large_messages.topics
    rule = next((one for one in rules if matches(topic, [one.name])), None)
    return rule is not None and rule.enabled and rule.store == "object"


def _show_progress(topic: str, read: int, in_all: int) -> None:
    if sys.stderr.isatty():
        typer.echo(f"\r{without_controls(topic)}: {read} of {in_all} offsets", nl=read >= in_all, err=True)


def _print(found: Iterable[Cleaned], as_json: bool) -> None:
    if as_json:
        for one in found:
            typer.echo(json.dumps(asdict(one)))
        return
    say(*table(TITLES, map(_row, found)))
    for one in found:
        if one.trouble:
            say(f"{one.topic}: nothing was deleted: {one.trouble}", err=True)


def _row(one: Cleaned) -> tuple[object, ...]:
    return (
        one.topic, one.listed, one.referenced, one.young, one.unreferenced, one.unreferenced_bytes, one.deleted,
    )  # fmt: skip
