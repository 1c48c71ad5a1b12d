"""Settings of Kafka's Java clients, for the clients of the commands and of the jobs, which are aiokafka's.

They are those of `pipeline.kafka`, or of a file as Kafka's own tools read it (`--command-config`).

Certificates are PEM (KIP-651): Java's key stores cannot be read.
"""

from __future__ import annotations

import re
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

REQUEST_TIMEOUT_MS = 20_000
REPLAY_CLIENT_ID = "kafka-sidecar-replay"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# Java's name to that of aiokafka, and the type.
DIRECT = {
    "client.id": ("client_id", str),
    "request.timeout.ms": ("request_timeout_ms", int),
    "retry.backoff.ms": ("retry_backoff_ms", int),
    "connections.max.idle.ms": ("connections_max_idle_ms", int),
    "metadata.max.age.ms": ("metadata_max_age_ms", int),
}
TLS = (
    "ssl.endpoint.identification.algorithm", "ssl.key.password", "ssl.keystore.certificate.chain", "ssl.keystore.key",
    "ssl.keystore.location", "ssl.keystore.type", "ssl.truststore.certificates", "ssl.truststore.location",
    "ssl.truststore.type",
)  # fmt: skip
SASL = ("sasl.jaas.config", "sasl.mechanism")
KNOWN = (*DIRECT, *TLS, *SASL, "security.protocol")
_LOGIN = re.compile(r"""\b(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")


class KafkaSettingError(ValueError):
    """A setting cannot be used here. The text has key and remedy."""

    def __init__(self, key: str, message: str, place: str = "") -> None:
        super().__init__(f"{place}{key}: {message}")
        self.key = key
        self.message = message


def client_settings(servers: Sequence[str], kafka: Mapping[str, str], place: str = "pipeline.kafka.") -> dict[str, Any]:
    """Arguments of aiokafka's clients. Raises KafkaSettingError, whose text begins with ``place``."""
    try:
        return _client_settings(servers, kafka)
    except KafkaSettingError as error:
        raise KafkaSettingError(error.key, error.message, place) from error


def read_properties(path: Path) -> dict[str, str]:
    """The settings in a file of Java's form, without escapes and continued lines. Raises OSError, ValueError."""
    return parse_properties(path.read_text())


def parse_properties(text: str) -> dict[str, str]:
    """As `read_properties`.

    >>> parse_properties("a=1\\n# b=2\\n\\n c : d=e ")
    {'a': '1', 'c': 'd=e'}
    """
    lines = (line.strip() for line in text.splitlines())
    pairs = [re.split(r"\s*[=:]\s*", line, maxsplit=1) for line in lines if line and line[0] not in "#!"]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError("is no file of properties: write lines such as security.protocol=SSL")
    return dict(pairs)


def _client_settings(servers: Sequence[str], kafka: Mapping[str, str]) -> dict[str, Any]:
    for key in kafka:
        if key not in KNOWN:
            raise KafkaSettingError(key, f"is not used here; what is used: {', '.join(sorted(KNOWN))}")
    found: dict[str, Any] = {
        "bootstrap_servers": list(servers), "client_id": REPLAY_CLIENT_ID,
        "request_timeout_ms": REQUEST_TIMEOUT_MS,
    }  # fmt: skip
    for key, (name, kind) in DIRECT.items():
        if key in kafka:
            found[name] = _number(key, kafka[key]) if kind is int else kafka[key]
    protocol = _one_of("security.protocol", kafka, PROTOCOLS, "PLAINTEXT")
    found["security_protocol"] = protocol
    if protocol.startswith("SASL"):
        found |= _sasl(kafka)
    if protocol.endswith("SSL"):
        found["ssl_context"] = _tls(kafka)
    return found


def _sasl(kafka: Mapping[str, str]) -> dict[str, Any]:
    mechanism = _one_of("sasl.mechanism", kafka, MECHANISMS, "GSSAPI")
    login = {name: _unquoted(*values) for name, *values in _LOGIN.findall(kafka.get("sasl.jaas.config", ""))}
    if login.keys() != {"username", "password"}:
        raise KafkaSettingError("sasl.jaas.config", 'write "... required username=\\"name\\" password=\\"secret\\";"')
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": login["username"],
        "sasl_plain_password": login["password"],
    }


def _tls(kafka: Mapping[str, str]) -> ssl.SSLContext:
    for key in ("ssl.truststore.type", "ssl.keystore.type"):
        store = key.removesuffix(".type")
        if kafka.get(key, "PEM" if store + ".location" not in kafka else "JKS").upper() != "PEM":
            raise KafkaSettingError(key, "write PEM; convert the file with keytool and openssl")
    try:
        context = ssl.create_default_context(
            cafile=kafka.get("ssl.truststore.location"), cadata=kafka.get("ssl.truststore.certificates")
        )
        _load_own(context, kafka)
    except (OSError, ValueError) as error:  # SSLError is an OSError
        raise KafkaSettingError("ssl.*", f"a certificate or key cannot be read: {error}") from error
    context.check_hostname = kafka.get("ssl.endpoint.identification.algorithm", "https") != ""
    return context


def _load_own(context: ssl.SSLContext, kafka: Mapping[str, str]) -> None:
    """The client's certificate: a file, or text in two settings. Python reads it from a file only."""
    password = kafka.get("ssl.key.password")
    if (location := kafka.get("ssl.keystore.location")) is not None:
        context.load_cert_chain(location, password=password)
    elif (chain := kafka.get("ssl.keystore.certificate.chain")) is not None:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # only its owner can read it
            file.write(kafka.get("ssl.keystore.key", "") + "\n" + chain)
            file.flush()
            context.load_cert_chain(file.name, password=password)


def _one_of(key: str, kafka: Mapping[str, str], allowed: Sequence[str], default: str) -> str:
    value = kafka.get(key, default).upper()
    if value not in allowed:
        raise KafkaSettingError(key, f"{value} is not supported; use one of {', '.join(allowed)}")
    return value


def _number(key: str, text: str) -> int:
    if not text.isdecimal():
        raise KafkaSettingError(key, f"write a number in place of {text!r}")
    return int(text)


def _unquoted(double: str, single: str, bare: str) -> str:
    return re.sub(r"\\(.)", r"\1", double or single) or bare
