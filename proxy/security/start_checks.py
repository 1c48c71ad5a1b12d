"""What `validate` and `run` find in files and settings of a login, as the start itself would; and what is doubtful."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from kafka_sidecar.proxy.config.loading import LOOPBACK, Config
from kafka_sidecar.proxy.config.mistakes import ConfigError, Mistake
from kafka_sidecar.proxy.config.types import host_port
from kafka_sidecar.proxy.security.private_files import find_trouble


def find_mistakes(config: Config) -> Iterator[Mistake]:
    """Files of logins that cannot be used. What opens them is imported if it is configured."""
    opens: list[Callable[[], object]] = []
    if config.brokers.sasl.mechanism is not None or config.brokers.logins:
        from kafka_sidecar.proxy.security.sasl.broker_logins import open_broker_logins, open_logins_by_principal

        opens.append(lambda: open_broker_logins(config, Counter()))
        opens.append(lambda: open_logins_by_principal(config, None, Counter()))
    if config.clients.sasl.mechanisms:
        from kafka_sidecar.proxy.security.sasl.client_logins import open_client_logins

        opens.append(lambda: open_client_logins(config, lambda *_: b""))
    for open_ in opens:
        try:
            open_()
        except ConfigError as error:
            yield from map(_mistake, error.lines)


def _mistake(line: str) -> Mistake:
    """From a line that begins with a setting."""
    setting, colon, text = line.partition(": ")
    return Mistake(tuple(setting.split(".")), text) if colon and " " not in setting else Mistake((), line)


def find_doubts(config: Config) -> Iterator[str]:
    """What is valid and likely to be wrong: one line each."""
    for setting, path, lost in (
        ("audit.spool_file", config.audit.spool_file, "events that are not sent when the sidecar stops"),
        ("nodes.state_file", config.nodes.state_file, "the ports of the brokers"),
    ):
        if path is not None and (why := find_trouble(path)) is not None:
            yield f"{setting}: {why}; {lost} would be forgotten"
    if config.clients.tls.is_used:
        yield from _unnamed_hosts(config)
    elif "PLAIN" in config.clients.sasl.mechanisms and host_port(config.listen)[0] not in LOOPBACK:
        yield "clients.sasl.mechanisms: PLAIN without clients.tls: passwords can be read on the network"
    for name, registry in config.schema_registries.items():
        if any(registry.has_login and url.startswith("http:") and not _is_here(url) for url in registry.urls):
            yield f"schema_registries.{name}.urls: a login without https: it can be read on the network"


def _is_here(url: str) -> bool:
    return urlsplit(url).hostname in (*LOOPBACK, "::1")


def _unnamed_hosts(config: Config) -> Iterator[str]:
    """The host that clients are given, where the certificate does not name it: they would reject it."""
    from kafka_sidecar.proxy.security.tls.contexts import StoreError, read_identity
    from kafka_sidecar.proxy.security.tls.der import is_named, names_of

    try:
        identity = read_identity(config.clients.tls)
        names = names_of(identity.chain[0]) if identity is not None else []
    except (StoreError, ValueError):
        return  # a mistake
    host = config.advertised_host
    if not is_named(host, names):
        yield (
            f"clients.tls.certificate: does not name {host} (nodes.advertised_host), only "
            f"{', '.join(names) or 'nothing'}: clients that verify it will not connect"
        )
