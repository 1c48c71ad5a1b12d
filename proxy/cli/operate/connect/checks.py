"""All checks of a configuration, in the order of a start, within one time limit."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from kafka_sidecar.proxy.cli.operate.connect.broker import FAILURES, Probe, connected
from kafka_sidecar.proxy.cli.operate.connect.cluster import check_brokers, check_logins
from kafka_sidecar.proxy.cli.operate.connect.needs import needs_of
from kafka_sidecar.proxy.cli.operate.connect.report import Check, Result, failed, skipped
from kafka_sidecar.proxy.cli.operate.connect.services import services_of
from kafka_sidecar.proxy.cli.operate.connect.topics import check_topics
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.security.sasl.broker_logins import open_broker_logins
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess
from kafka_sidecar.proxy.security.tls.live_tls import TlsSides
from kafka_sidecar.proxy.telemetry.tls_failures import describe_failure

NO_BROKER = "no broker lets the sidecar ask"
SET_LOGIN = "set brokers.sasl and brokers.security_protocol: SASL_PLAINTEXT or SASL_SSL"


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
