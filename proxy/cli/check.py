"""The commands `validate`, `check producer` and `check topic`: what a configuration file would meet, and would say.

Exit codes: 0 valid, accepted or only reported, 1 something would be rejected, or cannot be connected to, 2 the
configuration or a flag is invalid.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_sidecar.plugins.units import seconds
from kafka_sidecar.proxy.cli.output import exit_with_error, load_valid_or_exit, say, say_json
from kafka_sidecar.proxy.cli.run import BootstrapServers
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError

if TYPE_CHECKING:
    from kafka_sidecar.proxy.features.producer_habits.habits import Entry, Fault
    from kafka_sidecar.proxy.features.topic_guards.guards import Guard, Violation

check_app = typer.Typer(no_args_is_help=True, help="What a sidecar would say to producers and to new topics.")
MAX_FILE_BYTES = 1 << 20
MAX_BATCH_BYTES = (1 << 31) - 1
# Those of Kafka's Java producer that `producers:` looks at, with their defaults.
SETTINGS: Mapping[str, str] = {
    "acks": "all",
    "batch.size": "16384",
    "client.id": "",
    "compression.type": "none",
    "enable.idempotence": "true",
    "transactional.id": "",
}
# What no setting of a producer decides.
ONLY_WHILE_IT_SENDS = ("max_records", "min_mean_batch_bytes", "min_mean_records")

ConfigFile = Annotated[Path, typer.Option("--config", "-c", help="The YAML file.")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="A setting, NAME=VALUE, any number of times.")]
Principal = Annotated[str | None, typer.Option(help="Who asks, such as User:alice. Default: a client without a login.")]


def validate(
    config: Annotated[Path, typer.Argument(help="The YAML file to check.")],
    connect: Annotated[
        bool, typer.Option("--connect", help="Try brokers, logins, topics, rights and services too; change nothing.")
    ] = False,
    bootstrap_servers: BootstrapServers = None,
    within: Annotated[str, typer.Option(help="Time limit of --connect.")] = "30s",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check a configuration file.

    Without the network, unless --connect is there.

    The environment variables that override it are checked too.
    """
    try:
        within_s = seconds(within)
    except ValueError as error:
        exit_with_error(f"--within: {error}")
    settings = load_valid_or_exit(config, {"bootstrap_servers": bootstrap_servers})
    doubts = _doubts(settings)
    if not connect:
        if as_json:
            say_json({"file": str(config), "valid": True, "warnings": doubts})
        else:
            say(*(f"{config}: warning: {doubt}" for doubt in doubts), f"{config}: valid")
        return
    from kafka_sidecar.proxy.cli.connect.checks import check_all, has_failed, summary

    try:
        checks = check_all(settings, within_s)
    except ConfigError as error:
        exit_with_error(*error.lines)
    if as_json:
        about = {"file": str(config), "valid": True, "warnings": doubts, "works": not has_failed(checks)}
        say_json({**about, "checks": [one.as_json for one in checks]})
    else:
        say(*(f"{config}: warning: {doubt}" for doubt in doubts), *(one.line for one in checks))
        say(f"{config}: valid; {summary(checks)}")
    if has_failed(checks):
        raise typer.Exit(1)


def _doubts(settings: Config) -> list[str]:
    """Exits with 2 where the token of the admin port cannot be used."""
    from kafka_sidecar.proxy.security.start_checks import find_doubts
    from kafka_sidecar.proxy.server.admin.http import check_token

    try:
        check_token(settings.admin.token_file)
    except ConfigError as error:
        exit_with_error(*error.lines)
    return list(find_doubts(settings))


@check_app.command("producer")
def check_producer(
    topic: Annotated[str, typer.Argument(help="The topic's name.")],
    config: ConfigFile,
    properties: Annotated[
        Path | None, typer.Option(help="The producer's settings, as a properties file of Kafka.")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="One of them, NAME=VALUE, any number of times.")
    ] = None,
    principal: Principal = None,
    software: Annotated[
        str | None, typer.Option(help="Client library and version, such as 'apache-kafka-java 3.9.0'.")
    ] = None,
) -> None:
    """Print what `producers:` says to a producer with these settings.

    Settings that are not given have the defaults of Kafka's Java producer.
    """
    from kafka_sidecar.proxy.features.producer_habits.habits import Entries

    entry = Entries(load_valid_or_exit(config).producers).find(topic, principal)
    given = {**(_read(properties) if properties else {}), **_pairs(setting or ())}
    if entry is None:
        say(f"{topic}: accepted; in {config} nothing is required of this producer")
        return
    faults = _faults(entry, given, software)
    does = "rejected" if entry.settings.mode == "enforce" else "reported"
    for fault in faults:
        say(f"{does} by {entry.source}: {fault.of(topic)}")
    for name in ONLY_WHILE_IT_SENDS:
        if (value := getattr(entry.settings, name)) is not None:
            say(f"{topic}: {name} {value} is seen once it sends")
    if not faults:
        say(f"{topic}: accepted by {entry.source}")
    raise typer.Exit(1 if faults and does == "rejected" else 0)


@check_app.command("topic")
def check_topic(
    name: Annotated[str, typer.Argument(help="The topic's name.")],
    config: ConfigFile,
    partitions: Annotated[int | None, typer.Option(help="Number of partitions. Default: the broker's.")] = None,
    replication_factor: Annotated[int | None, typer.Option(help="Number of replicas. Default: the broker's.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="A config, NAME=VALUE, any number of times.")
    ] = None,
    principal: Principal = None,
) -> None:
    """Print what `topic_guards:` says to the creation of a topic."""
    from kafka_sidecar.proxy.features.topic_guards.guards import Creation, Guards

    settings = load_valid_or_exit(config)
    guard = Guards(settings.topic_guards).of(name, principal)
    if guard is None:
        say(f"{name}: accepted; in {config} no entry of topic_guards is for it")
        return
    factors = None if replication_factor is None else (replication_factor,)
    asked = Creation(name, partitions, factors, [*_pairs(setting or ()).items()])
    own = _own_configs() if settings.topic_configs.topic is not None else ()
    violations = list(guard.of_creation(asked, own))
    raise typer.Exit(_say_violations(name, guard, violations, guard.depends_on_defaults(asked)))


def _say_violations(name: str, guard: Guard, violations: Iterable[Violation], is_open: bool) -> int:
    does, source = "rejected" if guard.is_enforced else "reported", f"topic_guards (entry {guard.number})"
    code = 0
    for one in violations:
        say(f"{does} by {source}: {name}: {one.text}")
        code = 1 if guard.is_enforced else 0
    if is_open:
        say(f"{name}: the broker's default numbers are compared too, which only it knows")
    if not code:
        say(f"{name}: accepted by {source}")
    return code


def _own_configs() -> Collection[str]:
    from kafka_sidecar.proxy.features.topic_configs.entries import own_configs

    return own_configs(lambda policy: None)


def _faults(entry: Entry, given: Mapping[str, str], software: str | None) -> list[Fault]:
    from kafka_sidecar.codec.batch_layout import HEADER, NEWEST_MAGIC, TRANSACTIONAL
    from kafka_sidecar.codec.records.batch import header_at
    from kafka_sidecar.proxy.config.producers import CODECS
    from kafka_sidecar.proxy.features.producer_habits.habits import BEFORE_RECORDS, NO_PRODUCER
    from kafka_sidecar.proxy.relay.acks import ProduceHead

    has = {**SETTINGS, **given}
    acks = {"all": -1, "-1": -1, "0": 0, "1": 1}.get(has["acks"])
    codec = has["compression.type"]
    if acks is None:
        exit_with_error(f"acks: write all, -1, 0 or 1, in place of {has['acks']!r}")
    if codec not in CODECS:
        exit_with_error(f"compression.type: write one of {', '.join(CODECS)}, in place of {codec!r}")
    if not has["batch.size"].isdecimal():
        exit_with_error(f"batch.size: write a number of bytes, in place of {has['batch.size']!r}")
    is_transactional = bool(has["transactional.id"])
    # Java switches idempotence off where acks do not allow it, unless it is asked for.
    is_idempotent = is_transactional or (
        has["enable.idempotence"] == "true" and ("enable.idempotence" in given or acks == -1)
    )
    head = ProduceHead(has["client.id"] or None, has["transactional.id"] or None, acks)
    # A full batch of one record.
    size = min(max(int(has["batch.size"]) - BEFORE_RECORDS, 0), MAX_BATCH_BYTES)
    attributes = TRANSACTIONAL if is_transactional else 0
    producer_id = 1 if is_idempotent else NO_PRODUCER
    packed = HEADER.pack(0, size, 0, NEWEST_MAGIC, 0, attributes, 0, 0, 0, producer_id, 0, 0, 1)
    header = header_at(memoryview(packed), 0)
    assert header is not None
    return [*entry.faults_of_request(head, software), *entry.faults_of_batch(header, CODECS.index(codec))]


def _pairs(texts: Iterable[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, is_there, value = text.partition("=")
        if not is_there or not name.strip():
            exit_with_error(f"{text!r}: write NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


def _read(file: Path) -> dict[str, str]:
    """A properties file, without escapes and lines that are continued."""
    try:
        text = file.read_bytes()[:MAX_FILE_BYTES].decode()
    except (OSError, UnicodeDecodeError) as error:
        exit_with_error(f"{file}: {error}")
    lines = map(str.strip, text.splitlines())
    return _pairs(line for line in lines if line and line[0] not in "#!")
