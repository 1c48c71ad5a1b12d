"""What is beside the brokers: schema registries, the object store, keys of tokens, a collector."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from urllib.parse import urlsplit

from kafka_sidecar.proxy.cli.operate.connect.report import Check, failed, ok
from kafka_sidecar.proxy.config.loading import Config

NO_SUBJECT = NO_OBJECT = "kafka-sidecar-validate"  # the answer is that there is none
LIMIT_S = 5.0
PORTS = {"http": 80, "https": 443}


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
    return ok("token keys", url, f"{len(keys)} keys")


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
