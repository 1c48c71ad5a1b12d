"""TLS of both sides from the configuration, and the task that looks at their files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import Mistake
from kafka_sidecar.proxy.config.reload import POLL_INTERVAL_S
from kafka_sidecar.proxy.config.tls import PASSWORDS, Tls
from kafka_sidecar.proxy.security.tls.contexts import Loaded, broker_context, listener_context
from kafka_sidecar.proxy.security.tls.live_tls import LiveTls
from kafka_sidecar.proxy.security.tls.stores import StoreError


def find_mistakes(config: Config) -> Iterator[Mistake]:
    """What is wrong with the settings of TLS together, and with its files."""
    yield from _find_missing(config)
    for tls, load in _loads(config):
        try:
            load()
        except StoreError as error:
            yield _mistake(tls, error)


class TlsSides:
    """TLS towards clients, towards brokers and of the admin port; None for a side without."""

    def __init__(self, config: Config) -> None:
        """Raises ConfigError if a file cannot be used."""
        self.clients: LiveTls | None = None
        self.brokers: LiveTls | None = None
        self.admin: LiveTls | None = None
        if mistakes := list(find_mistakes(config)):
            raise config.error(mistakes)
        for tls, load in _loads(config):
            if tls is config.clients.tls:
                self.clients = LiveTls("client", load, tls.files)
            elif tls is config.brokers.tls:
                self.brokers = LiveTls("broker", load, tls.files)
            else:
                self.admin = LiveTls("admin", load, tls.files)

    @property
    def all(self) -> list[LiveTls]:
        return [side for side in (self.clients, self.brokers, self.admin) if side is not None]

    async def watch(self) -> None:
        """Look at the files until cancelled."""
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            for side in self.all:
                side.look()


def _find_missing(config: Config) -> Iterator[Mistake]:
    brokers = config.brokers
    for listener in (config.clients.tls, config.admin.tls):
        if listener.is_set and not listener.is_used:
            yield Mistake(listener.at, "certificate is missing: name the file with the certificate of the listeners")
        if listener.client_certificates != "none" and listener.ca is None:
            yield Mistake((*listener.at, "ca"), "is missing: name the file with the CA of the clients' certificates")
    if brokers.tls.is_set and not brokers.uses_tls:
        yield Mistake(brokers.tls.at, "is set, but not used: set brokers.security_protocol to SSL, or remove it")
    if brokers.tls.certificate is None and brokers.tls.key is not None:
        yield Mistake(brokers.tls.at, "certificate is missing: name the file with the certificate of the key")
    for tls in (config.clients.tls, brokers.tls, config.admin.tls):
        for name in PASSWORDS:
            if getattr(tls, name) is not None and getattr(tls, f"{name}_file") is not None:
                yield Mistake((*tls.at, name), f"is set, and {name}_file too: remove one of them")


def _loads(config: Config) -> Iterator[tuple[Tls, Callable[[], Loaded]]]:
    """For each side with TLS: its section, and what reads its files. Raises StoreError when called."""
    clients, brokers, admin = config.clients.tls, config.brokers, config.admin.tls
    if clients.is_used:
        yield clients, lambda: listener_context(clients)
    if brokers.uses_tls:
        yield brokers.tls, lambda: broker_context(brokers.tls)
    if admin.is_used:
        yield admin, lambda: listener_context(admin)


def _mistake(tls: Tls, error: StoreError) -> Mistake:
    return Mistake((*tls.at, error.setting), str(error))
