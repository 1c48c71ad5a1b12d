"""All checks of a configuration, in the order of a start, within one time limit."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from urllib.parse import urlsplit

from kafka_sidecar.proxy.cli.connect.brokers import FAILURES, Probe, check_brokers, check_logins, connected
from kafka_sidecar.proxy.cli.connect.report import Check, Result, failed, ok, skipped
from kafka_sidecar.proxy.cli.connect.topics import check_topics, needs_of
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.security.sasl.broker_logins import open_broker_logins
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess
from kafka_sidecar.proxy.security.tls.live_tls import TlsSides
from kafka_sidecar.proxy.telemetry.readable import counted
from kafka_sidecar.proxy.telemetry.tls_failures import describe_failure

NO_BROKER = "no broker lets the sidecar ask"
SET_LOGIN = "set brokers.sasl and brokers.security_protocol: SASL_PLAINTEXT or SASL_SSL"
NO_SUBJECT = NO_OBJECT = "kafka-sidecar-validate"  # the answer is that there is none
LIMIT_S = 5.0
PORTS = {"http": 80, "https": 443}


def check_all(config: Config, within_s: float) -> list[Check]:
    """Raises ConfigError where a file of TLS or of a login cannot be used."""
    with _without_log_lines():
        return asyncio.run(_check_all(config, within_s))


async def _check_all(config: Config, within_s: float) -> list[Check]:
    logins = open_broker_logins(config, Counter())
    access = BrokerAccess(config.connections.source_address, TlsSides(config).brokers, logins)
    checks: list[Check] = []
    try:
        async with asyncio.timeout(within_s):
            services = asyncio.gather(*(check() for check in services_of(config)))
            try:
                await _check_cluster(config, access, checks)
            finally:
                checks += await services
    except TimeoutError:
        checks.append(failed("time limit", f"{within_s:g} s", "not everything was tried", "raise --within"))
    return checks


async def _check_cluster(config: Config, access: BrokerAccess, checks: list[Check]) -> None:
    found = await check_brokers(config, access)
    checks += found.checks
    if found.probe is None:
        checks += _skip_topics(config, NO_BROKER)
        return
    if found.probe.is_too_old:
        checks += _skip_topics(config, "the broker is too old")
        return
    if config.brokers.logins:
        checks += await check_logins(config, access, found.probe.address)
    if found.probe.metadata is None:
        checks += _skip_topics(config, "brokers want a login, and the sidecar has none", SET_LOGIN)
        return
    checks += await _check_topics(config, access, found.probe)


async def _check_topics(config: Config, access: BrokerAccess, probe: Probe) -> list[Check]:
    try:
        async with connected(access, probe.address) as channel:
            await channel.greet()
            return await check_topics(config, channel, _user(config))
    except FAILURES as error:
        return [failed("topics", "all", f"{'{}:{}'.format(*probe.address)}: {describe_failure(error)}")]


def _user(config: Config) -> str:
    """Who the sidecar is for the brokers, as far as the configuration says."""
    name = config.brokers.sasl.username or config.brokers.sasl.client_id
    if name is not None:
        return f"User:{name}"
    return "the sidecar's user" if config.brokers.uses_sasl or config.brokers.uses_tls else "User:ANONYMOUS"


def _skip_topics(config: Config, why: str, remedy: str = "") -> Iterator[Check]:
    """Features that need a login of the sidecar's own do not work without one."""
    for need in needs_of(config, ()):
        if remedy and need.operations:
            yield failed("topic", need.topic, f"{why} ({need.setting})", remedy)
        else:
            yield skipped("topic", need.topic, f"{why} ({need.setting})")


def summary(checks: list[Check]) -> str:
    """One line on all of them."""
    counts = Counter(one.result for one in checks)
    parts = [f"{counts[one]} {one}" for one in Result if counts[one]]
    return ", ".join(parts) or "nothing was tried"


def has_failed(checks: list[Check]) -> bool:
    return any(one.result is Result.FAILED for one in checks)


@contextmanager
def _without_log_lines() -> Iterator[None]:
    """What a sidecar would log is in the checks."""
    own, silent = logging.getLogger("kafka_sidecar"), logging.NullHandler()
    propagates = own.propagate
    own.addHandler(silent)
    own.propagate = False
    try:
        yield
    finally:
        own.removeHandler(silent)
        own.propagate = propagates


def services_of(config: Config) -> Iterator[Callable[[], Awaitable[Check]]]:
    """A check for each that is configured."""
    for name in config.schema_registries:
        yield partial(_registry, config, name)
    large = config.large_messages
    if large.object_store is not None and any(one.enabled and one.store == "object" for one in large.topics):
        yield partial(_object_store, config)
    if config.clients.sasl.jwks_endpoint is not None:
        yield partial(_keys, config.clients.sasl.jwks_endpoint)
    if config.otlp.endpoint is not None:
        yield partial(_collector, config.otlp.endpoint)


async def _registry(config: Config, name: str) -> Check:
    """Asked for a subject that it has not: whether it is reached, and lets the sidecar in."""
    from kafka_sidecar.proxy.config.registries import registries
    from kafka_sidecar.schemas.registry import LatestOf, NotFetchedError, RegistryError

    registry = registries(config.schema_registries)[name]
    question = LatestOf(NO_SUBJECT)
    try:
        await registry.fetch(question)
        registry.get(question)
    except (RegistryError, NotFetchedError) as error:
        return failed("registry", name, str(error), f"correct schema_registries.{name}")
    return ok("registry", name, f"answers ({', '.join(config.schema_registries[name].urls)})")


async def _object_store(config: Config) -> Check:
    """A read of an object that is not there: it takes the login, and changes nothing."""
    from kafka_sidecar.proxy.features.large_messages.object_needs import GetObject
    from kafka_sidecar.proxy.features.large_messages.object_store import ObjectStore, check_store

    large = config.large_messages
    url, options = str(large.object_store), large.object_store_options
    try:
        check_store(url, options)
        if url.startswith("file://"):  # whose folder would be made
            return ok("object store", url, "can be made or written to")
        await ObjectStore(url, options, LIMIT_S).get(GetObject(NO_OBJECT, 0))
    except (OSError, ValueError) as error:
        why = str(error).removeprefix("large_messages.object_store: ")
        return failed("object store", url, why, "correct large_messages.object_store and its options")
    return ok("object store", url, "answers and lets the sidecar read; whether it may write is seen with an object")


async def _keys(url: str) -> Check:
    from kafka_sidecar.outbound.jwks import fetch_keys, parse_keys

    try:
        async with asyncio.timeout(LIMIT_S):
            keys = parse_keys(await asyncio.to_thread(fetch_keys, url), url)
    except (OSError, ValueError) as error:
        why = str(error) or f"no answer within {LIMIT_S:g} s"
        return failed("token keys", url, why, "correct clients.sasl.jwks_endpoint")
    return ok("token keys", url, counted(len(keys), "key"))


async def _collector(url: str) -> Check:
    """A connection alone: what is sent would be stored."""
    parts = urlsplit(url)
    try:
        async with asyncio.timeout(LIMIT_S):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port or PORTS[parts.scheme])
        writer.close()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error) or f"no answer within {LIMIT_S:g} s"
        return failed("collector", url, why, "correct otlp.endpoint")
    return ok("collector", url, "takes connections")
