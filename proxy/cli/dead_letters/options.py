"""What the commands of dead letters have in common: whom they connect to, and which letters are meant."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from kafka_sidecar.dead_letters.letters import Choice
from kafka_sidecar.plugins.units import milliseconds
from kafka_sidecar.proxy.cli.output import exit_with_error
from kafka_sidecar.proxy.config.dead_letters import name_for
from kafka_sidecar.proxy.config.loading import PLACEHOLDER, Config, load
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.config.types import host_port, reached_at
from kafka_sidecar.proxy.security.client_settings import KafkaSettingError, client_settings, read_properties

GROUP = "kafka-sidecar-dead-letters"
COMPRESSION = ("none", "gzip", "snappy", "lz4", "zstd")

Topics = Annotated[
    list[str] | None, typer.Argument(metavar="TOPIC", help="Dead letter topics, also with * and ?.", show_default=False)
]
Servers = Annotated[str | None, typer.Option("--bootstrap-servers", help="The sidecar: host:port, as for any client.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="The sidecar's file: its address, and the dead letter topics.")
]
CommandConfig = Annotated[
    Path | None, typer.Option("--command-config", help="File of a client's TLS and login, as of Kafka's own tools.")
]
OriginalTopic = Annotated[list[str] | None, typer.Option("--topic", help="That the records were sent to.")]
Policy = Annotated[list[str] | None, typer.Option("--policy", help="That has rejected them.")]
Reason = Annotated[list[str] | None, typer.Option("--reason", help="Of the rejection.")]
RejectionId = Annotated[list[str] | None, typer.Option("--rejection-id", help="From an error message or a log line.")]
Since = Annotated[str | None, typer.Option(help="Rejected at this UTC time or after it, or so long ago: 2h.")]
Until = Annotated[str | None, typer.Option(help="Rejected before; likewise.")]
WithShadow = Annotated[
    bool, typer.Option("--with-shadow", help="Also those of mode shadow, whose record is stored already.")
]
Mend = Annotated[Path | None, typer.Option(help="File with `interceptors:`, whose on_send changes records before.")]
Compression = Annotated[str, typer.Option(help=f"{', '.join(COMPRESSION)}.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Send nothing: ask the policies of --config what they would accept.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True, slots=True)
class Target:
    """Whom a command connects to, and the dead letter topics."""

    settings: dict[str, Any]  # of aiokafka's clients
    topics: list[str]  # names and patterns


def target(
    topics: Sequence[str] | None, servers: str | None, config: Path | None, command_config: Path | None
) -> Target:
    """Exits with code 2 if something is missing or wrong."""
    found = list(dict.fromkeys(topics or ()))
    addresses = [one.strip() for one in (servers or "").split(",") if one.strip()]
    if config is not None:
        loaded = load_file(config)
        addresses = addresses or [reached_at(loaded.listen)]
        found = found or configured(loaded)
    if not addresses:
        exit_with_error("name the sidecar: --bootstrap-servers HOST:PORT, or its file with --config")
    if not found:
        exit_with_error("name a dead letter topic, or a file with --config that has some")
    return Target(client(addresses, command_config), found)


def load_file(path: Path, is_tried: bool = False) -> Config:
    """A configuration file, which need not name brokers; exits with code 2 if it is invalid.

    Args:
        path: of the file.
        is_tried: whether its policies and interceptors are tried, too.
    """
    from kafka_sidecar.proxy.features.compose import find_mistakes

    try:
        settings = load(path, os.environ, PLACEHOLDER, *([find_mistakes] if is_tried else []))
        if is_tried and (mistakes := list(find_mistakes(settings))):
            raise settings.error(mistakes)
        return settings
    except ConfigError as error:
        exit_with_error(*error.lines)


def with_policies(path: Path | None) -> Config | None:
    """A configuration whose policies can be asked; None without a file, or if it has none. Exits with code 2 if one
    is wrong."""
    if path is None:
        return None
    config = load_file(path, is_tried=True)
    return config if any(topic.policy for topic in config.topics) or config.topic_configs.topic is not None else None


def interceptors_of(path: Path) -> Config:
    """A file with interceptors that mend records; exits with code 2 if there are none, or one is wrong."""
    config = load_file(path, is_tried=True)
    if not config.interceptors:
        exit_with_error(f"{path}: interceptors: is empty: name those that mend records")
    return config


def configured(config: Config) -> list[str]:
    """The dead letter topics of a configuration: names, or patterns where those of its topics are."""
    names = (name_for(topic.dead_letters.topic, topic.name) for topic in config.topics if topic.dead_letters)
    return list(dict.fromkeys(names))


def client(addresses: Sequence[str], command_config: Path | None) -> dict[str, Any]:
    """Arguments of aiokafka's clients; exits with code 2 if one is wrong."""
    try:
        for address in addresses:
            host_port(address)
    except ValueError as error:
        exit_with_error(f"--bootstrap-servers: {error}")
    try:
        return client_settings(addresses, properties(command_config), f"{command_config}: ")
    except KafkaSettingError as error:
        exit_with_error(str(error))


def properties(command_config: Path | None) -> dict[str, str]:
    """Those of a file; exits with code 2 if it cannot be read."""
    try:
        return read_properties(command_config) if command_config is not None else {}
    except (OSError, ValueError) as error:
        exit_with_error(f"--command-config: {command_config}: {getattr(error, 'strerror', None) or error}")


def choice(
    topics: Sequence[str] | None,
    policies: Sequence[str] | None,
    reasons: Sequence[str] | None,
    rejection_ids: Sequence[str] | None = None,
    since: str | None = None,
    until: str | None = None,
    with_stored: bool = True,
) -> Choice:
    """Which letters are meant; exits with code 2 if a time cannot be read."""
    now = time.time_ns() // 1_000_000
    return Choice(
        frozenset(topics or ()), frozenset(policies or ()), frozenset(reasons or ()), frozenset(rejection_ids or ()),
        _time("--since", since, now), _time("--until", until, now), with_stored,
    )  # fmt: skip


def codec_of(compression: str) -> int:
    """Its number; exits with code 2 if there is none of this name."""
    if compression not in COMPRESSION:
        exit_with_error(f"--compression: {compression}: write one of {', '.join(COMPRESSION)}")
    return COMPRESSION.index(compression)


def _time(option: str, text: str | None, now: int) -> int | None:
    try:
        return None if text is None else parse_time(text, now)
    except ValueError as error:
        exit_with_error(f"{option}: {error}")


def parse_time(text: str, now: int) -> int:
    """A time (UTC unless it says otherwise), or how long before ``now``, in ms since 1970.

    >>> parse_time("1970-01-02", 0), parse_time("30d", 2592000001)
    (86400000, 1)

    Raises ValueError.
    """
    try:
        at = datetime.fromisoformat(text)
        return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except ValueError:
        pass
    try:
        return now - milliseconds(text)
    except ValueError:
        raise ValueError(f"write a time as 2026-10-01T08:00, or a duration as 30d, not {text!r}") from None


def time_text(ms: int) -> str:
    """A time as people and `--since` read it.

    >>> time_text(1_790_000_000_123)
    '2026-09-21T14:13:20.123Z'
    """
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):  # of a header that another program has written
        return str(ms)


def is_terminal() -> bool:
    """Whether progress is one line that changes."""
    return os.isatty(2)
