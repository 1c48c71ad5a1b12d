"""Kafka's ``sasl.jaas.config``: one login module and its options.

org.apache.kafka.common.security.plain.PlainLoginModule required username="app" password="secret";
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kafka_sidecar.proxy.config.secrets import SecretError

MODULES: Mapping[str, tuple[str, ...]] = {  # and the mechanisms that each is for
    "org.apache.kafka.common.security.plain.PlainLoginModule": ("PLAIN",),
    "org.apache.kafka.common.security.scram.ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule": ("OAUTHBEARER",),
}
SECRET_OPTIONS = ("password", "clientSecret")
# Kafka's name of an option to that of the setting.
OPTIONS: Mapping[str, str] = {
    "username": "username",
    "password": "password",
    "clientId": "client_id",
    "clientSecret": "client_secret",
    "scope": "scope",
}
_VALUE = r"""(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))"""
_OPTION = re.compile(rf"\s+([\w.]+)\s*=\s*{_VALUE}")
_WHOLE = re.compile(rf"\s*([\w.]+)\s+(?:required|requisite|sufficient|optional)((?:\s+[\w.]+\s*=\s*{_VALUE})*)\s*;\s*")
EXAMPLE = 'write "org.apache.kafka.common.security.plain.PlainLoginModule required username=... password=...;"'


def parse_jaas(text: str, mechanism: str, setting: str = "jaas_config") -> dict[str, str]:
    """The options of the login module, by the names of our settings. Raises SecretError, which quotes no value.

    >>> parse_jaas('org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password=b;', "PLAIN")
    {'username': 'a', 'password': 'b'}
    """
    found = _WHOLE.fullmatch(text)
    if found is None:
        raise SecretError(f"{setting}: is no login module with its options and a semicolon; {EXAMPLE}")
    module = found[1]
    if module not in MODULES:
        raise SecretError(f"{setting}: {module} is not supported; use one of {', '.join(MODULES)}")
    if mechanism not in MODULES[module]:
        raise SecretError(
            f"{setting}: {module} is not for the mechanism {mechanism}, but for {' and '.join(MODULES[module])}"
        )
    options = {name: _unquoted(*values) for name, *values in _OPTION.findall(found[2])}
    if unknown := options.keys() - OPTIONS:
        raise SecretError(f"{setting}: the option {min(unknown)} is not supported; use {', '.join(OPTIONS)}")
    return {OPTIONS[name]: value for name, value in options.items()}


def _unquoted(double: str, single: str, bare: str) -> str:
    return re.sub(r"\\(.)", r"\1", double or single) or bare
