"""The commands `dead-letters list`, `show` and `replay`.

Exit codes: 0 success, 1 a record was rejected, or something failed while running, 2 a flag or a file is invalid,
130 interrupted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from kafka_sidecar.proxy.cli.dead_letters import options
from kafka_sidecar.proxy.cli.output import exit_with_error, exit_with_failure, say, say_json

if TYPE_CHECKING:
    from kafka_sidecar.dead_letters.letters import Choice, Letter
    from kafka_sidecar.dead_letters.overview import Overview
    from kafka_sidecar.proxy.cli.dead_letters.asking import PolicyAsker
    from kafka_sidecar.proxy.cli.dead_letters.cluster import Cluster
    from kafka_sidecar.proxy.cli.dead_letters.replay import Mender, Order, Tally
    from kafka_sidecar.proxy.config.loading import Config

T = TypeVar("T")
INTERRUPTED = 130
PROGRESS_S, LOGGED_PROGRESS_S = 0.5, 10.0  # on a terminal, and elsewhere

dead_letters_app = typer.Typer(no_args_is_help=True, help="Records that policies have rejected.")


@dead_letters_app.command("list")
def show_list(
    topics: options.Topics = None,
    bootstrap_servers: options.Servers = None,
    config: options.ConfigFile = None,
    command_config: options.CommandConfig = None,
    topic: options.OriginalTopic = None,
    policy: options.Policy = None,
    reason: options.Reason = None,
    rejection_id: options.RejectionId = None,
    since: options.Since = None,
    until: options.Until = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after so many letters.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Count letters by topic, policy, reason, mode and client."""
    from kafka_sidecar.proxy.cli.dead_letters.printing import overview_json, overview_lines

    at = options.target(topics, bootstrap_servers, config, command_config)
    chosen = options.choice(topic, policy, reason, rejection_id, since, until)
    overview = _run(_overview(at, chosen, limit))
    if as_json:
        typer.echo(overview_json(overview))
    else:
        say(*overview_lines(overview))


@dead_letters_app.command("show")
def show_letters(
    place: Annotated[
        str, typer.Argument(metavar="TOPIC[:PARTITION:OFFSET]", help="One letter as `list` names it, or a topic.")
    ],
    bootstrap_servers: options.Servers = None,
    config: options.ConfigFile = None,
    command_config: options.CommandConfig = None,
    rejection_id: options.RejectionId = None,
    values: Annotated[bool, typer.Option("--values", help="Show keys and values: as text, or in base64.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Of the letters with a rejection id.")] = 10,
    as_json: options.AsJson = False,
) -> None:
    """Show a letter with all its reasons and headers.

    What keys, values and headers contain is shown with --values only.
    """
    from kafka_sidecar.proxy.cli.dead_letters.printing import letter_json, letter_lines

    topic, partition, offset = _place(place)
    if partition is None and not rejection_id:
        exit_with_error("name one letter as TOPIC:PARTITION:OFFSET, or give --rejection-id")
    at = options.target([topic], bootstrap_servers, config, command_config)
    found = _run(_find(at, topic, partition, offset, options.choice(None, None, None, rejection_id), limit))
    if not found:
        exit_with_failure(f"{place}: there is no such letter")
    if as_json:
        say_json([letter_json(*one, values) for one in found])
        return
    for one in found:
        say(*letter_lines(*one, values))


@dead_letters_app.command("replay")
def replay_letters(
    topics: options.Topics = None,
    bootstrap_servers: options.Servers = None,
    config: options.ConfigFile = None,
    command_config: options.CommandConfig = None,
    topic: options.OriginalTopic = None,
    policy: options.Policy = None,
    reason: options.Reason = None,
    rejection_id: options.RejectionId = None,
    since: options.Since = None,
    until: options.Until = None,
    with_shadow: options.WithShadow = False,
    mend: options.Mend = None,
    group: Annotated[str, typer.Option(help="Remembers what was replayed.")] = options.GROUP,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after so many records.")] = None,
    compression: options.Compression = "lz4",
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Send records once more, where policies decide again.

    What was accepted is not sent a second time, however often this is stopped and started again. A dry run with
    --config asks the policies of that file, also before a sidecar has it, and those set on topics.
    """
    from kafka_sidecar.proxy.cli.dead_letters.printing import asked_lines, tally_json, tally_lines
    from kafka_sidecar.proxy.cli.dead_letters.replay import Order, Tally

    codec = options.codec_of(compression)
    at = options.target(topics, bootstrap_servers, config, command_config)
    chosen = options.choice(topic, policy, reason, rejection_id, since, until, with_shadow)
    asker = _asker(options.with_policies(config), codec) if dry_run else None
    order = Order(chosen, group, codec, _mender(mend), limit, dry_run, asker)
    tally = Tally()
    try:
        _run(_replay(at, order, tally))
        code = 1 if tally.has_refused else 0
    except typer.Exit as exit_:
        code = exit_.exit_code
    if as_json:
        typer.echo(tally_json(tally, order.is_dry, order.fine))
    else:
        say(*tally_lines(tally, order.fine))
        if asker is not None:
            say(*asked_lines(str(config), asker.trouble))
    raise typer.Exit(code)


def _asker(config: Config | None, codec: int) -> PolicyAsker | None:
    if config is None:
        return None
    from kafka_sidecar.proxy.cli.dead_letters.asking import PolicyAsker

    def failed(policy: str, error: BaseException) -> None:
        say(f"kafka-sidecar: policy {policy} failed open: {type(error).__name__}", err=True)

    return PolicyAsker(config, codec, failed)


def _mender(path: Path | None) -> Mender | None:
    if path is None:
        return None
    from kafka_sidecar.proxy.cli.dead_letters.mending import InterceptorMender

    return InterceptorMender(options.interceptors_of(path))


def _place(text: str) -> tuple[str, int | None, int | None]:
    """A topic, or one letter of it."""
    topic, *rest = text.rsplit(":", 2)
    if len(rest) == 2 and all(part.isdecimal() for part in rest):
        return topic, int(rest[0]), int(rest[1])
    if ":" in text:
        exit_with_error(f"{text}: write TOPIC:PARTITION:OFFSET, as `dead-letters list` does")
    return text, None, None


def _run(job: Coroutine[Any, Any, T]) -> T:
    """The result; exits with 1 and a line on stderr if it fails, and with 130 if it is interrupted."""
    from kafka_sidecar.proxy.cli.dead_letters.cluster import ClusterError

    try:
        return asyncio.run(job)
    except ClusterError as error:
        exit_with_failure(str(error))
    except KeyboardInterrupt:
        say("kafka-sidecar: interrupted", err=True)
        raise typer.Exit(INTERRUPTED) from None


async def _overview(at: options.Target, chosen: Choice, limit: int | None) -> Overview:
    from kafka_sidecar.dead_letters.letters import Letter
    from kafka_sidecar.dead_letters.overview import Overview
    from kafka_sidecar.proxy.cli.dead_letters.cluster import connect

    overview = Overview()
    async with connect(at.settings) as cluster:
        for topic in await cluster.expand(at.topics):
            for partition in await cluster.partitions(topic):
                async with aclosing(_letters(cluster, topic, partition, 0)) as found:
                    async for offset, one, timestamp in found:
                        place = f"{topic}:{partition}:{offset}"
                        if not isinstance(one, Letter):
                            overview.add_other(one, timestamp, place)
                        elif chosen.takes(one):
                            overview.add(one, place)
                            if overview.letters == limit:
                                return overview
    return overview


async def _find(
    at: options.Target, topic: str, partition: int | None, offset: int | None, chosen: Choice, limit: int
) -> list[tuple[str, Letter]]:
    """Letters with their places. Raises ClusterError: the record at the place is no letter."""
    from kafka_sidecar.dead_letters.letters import Letter
    from kafka_sidecar.proxy.cli.dead_letters.cluster import ClusterError, connect

    found: list[tuple[str, Letter]] = []
    async with connect(at.settings) as cluster:
        partitions = await cluster.partitions(topic)
        for number in partitions if partition is None else [one for one in partitions if one == partition]:
            async with aclosing(_letters(cluster, topic, number, offset or 0)) as letters:
                async for position, one, _ in letters:
                    if offset is not None and position != offset:
                        break
                    place = f"{topic}:{number}:{position}"
                    if isinstance(one, Letter):
                        if chosen.takes(one):
                            found.append((place, one))
                    elif offset is not None:
                        raise ClusterError(f"{place}: this record is no dead letter of a sidecar: {one}")
                    if offset is not None or len(found) == limit:
                        break
            if len(found) == limit:
                break
    return found


async def _letters(
    cluster: Cluster, topic: str, partition: int, first: int
) -> AsyncGenerator[tuple[int, Letter | str, int], None]:
    """Offset, letter or why it is none, and timestamp of each record. Raises ClusterError."""
    from kafka_sidecar.dead_letters.letter import NotALetterError
    from kafka_sidecar.dead_letters.letters import read_letter

    async with aclosing(cluster.read(topic, partition, first)) as found:
        async for read in found:
            for offset, record in read.records:
                try:
                    yield offset, read_letter(record, offset), record.timestamp
                except NotALetterError as error:
                    yield offset, str(error), record.timestamp


async def _replay(at: options.Target, order: Order, tally: Tally) -> None:
    from kafka_sidecar.proxy.cli.dead_letters.cluster import connect
    from kafka_sidecar.proxy.cli.dead_letters.replay import PartitionReplay

    progress = _Progress(tally, order.fine)
    async with connect(at.settings) as cluster:
        for topic in await cluster.expand(at.topics):
            for partition in await cluster.partitions(topic):
                if order.limit is None or tally.rows.total() < order.limit:
                    await PartitionReplay(cluster, order, topic, partition, tally, progress.show).run()
    progress.end()


class _Progress:
    """Numbers on stderr: a line that changes on a terminal, elsewhere a line now and then."""

    def __init__(self, tally: Tally, fine: str) -> None:
        self._tally = tally
        self._fine = fine
        self._began = self._shown_at = time.monotonic()
        self._is_terminal = options.is_terminal()

    def show(self) -> None:
        now = time.monotonic()
        if now - self._shown_at >= (PROGRESS_S if self._is_terminal else LOGGED_PROGRESS_S):
            self._shown_at = now
            self._print(now)

    def end(self) -> None:
        self._print(time.monotonic())
        if self._is_terminal:
            typer.echo(err=True)

    def _print(self, now: float) -> None:
        from kafka_sidecar.proxy.cli.dead_letters.printing import progress_line

        line = progress_line(self._tally, self._fine, now - self._began)
        typer.echo(f"\r{line}" if self._is_terminal else line, nl=not self._is_terminal, err=True)
