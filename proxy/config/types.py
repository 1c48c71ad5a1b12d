"""Types of settings, and the base of all sections. An invalid value is a ValueError that says how to write it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator
from pydantic.json_schema import WithJsonSchema

from kafka_sidecar.codec import topic_names
from kafka_sidecar.plugins.settings import StrictScalars, quote
from kafka_sidecar.plugins.units import seconds
from kafka_sidecar.proxy.config.principal_rules import UNKNOWN_LOGIN

MAX_PORT = 65535


def duration_field(text: str, gt: float | None = None, le: float | None = None) -> Any:
    """A duration field whose default is ``text``, also in the schema: the number of seconds would be invalid there."""
    return Field(default=seconds(text), json_schema_extra={"default": text}, gt=gt, le=le)


_HOST = re.compile(r"[\w.:%-]+")


def host_port(value: object) -> tuple[str, int]:
    """Host and port of "host:port" or "[ipv6]:port"; ValueError otherwise."""
    host, _, port = str(value).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not port.isdecimal() or int(port) > MAX_PORT or not _HOST.fullmatch(host) or not _is_idna(host):
        raise ValueError(f'write host:port, such as "127.0.0.1:9092", in place of {str(value)!r}')
    return host, int(port)


def reached_at(bound: object) -> str:
    """The address by which a program of the same host reaches one that is bound: a wildcard by loopback.

    >>> reached_at("0.0.0.0:9092"), reached_at("[::]:9092"), reached_at("sidecar:9092")
    ('127.0.0.1:9092', '[::1]:9092', 'sidecar:9092')

    Raises ValueError.
    """
    host, port = host_port(bound)
    host = _LOOPBACK.get(host, host)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def _is_idna(host: str) -> bool:
    """Whether the resolver accepts the name: for an empty or too long label it raises UnicodeError, not OSError."""
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False


def _check_bindable(value: object) -> str:
    host_port(value)
    return str(value)


def _check_address(value: object) -> str:
    if not host_port(value)[1]:
        raise ValueError(f"write a port from 1 to {MAX_PORT} in place of {str(value)!r}")
    return str(value)


def _parse_addresses(value: object) -> list[str]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list) or not items:
        raise ValueError('name at least one broker, such as "kafka-1:9092,kafka-2:9092"')
    return [_check_address(item.strip() if isinstance(item, str) else item) for item in items]


def _check_replicas(value: int) -> int:
    if value < -1 or value == 0:
        raise ValueError("write a number above 0, or -1 for the cluster's default")
    return value


def _matches(pattern: str) -> dict[str, str]:
    """The schema of text all of which matches."""
    return {"type": "string", "pattern": f"^{pattern}$"}


def _check_topic_name(value: str) -> str:
    if not topic_names.is_topic_name(value):
        raise ValueError("write the name of a topic: up to 249 letters, digits, '.', '_' and '-'")
    return value


def _check_topic_pattern(value: str) -> str:
    if value in (".", "..") or not re.fullmatch(_TOPIC_PATTERN, value):
        raise ValueError(
            f"no topic can match {quote(value)}: names have up to 249 letters, digits, '.', '_' and '-'; use * for any "
            "characters and ? for one, and an entry for each pattern"
        )
    return value


def _check_principal_pattern(value: str) -> str:
    if value != UNKNOWN_LOGIN and not re.fullmatch(_PRINCIPAL_PATTERN, value):
        kind, colon, name = value.rpartition(":")
        raise ValueError(f"no client can be {quote(value)}: {_principal_remedy(kind if colon else '', name)}")
    return value


def _principal_remedy(kind: str, name: str) -> str:
    if kind and kind.lower() != "user":
        return "principals are users, such as User:alice"
    return f"did you mean {quote(f'User:{name}')}?"


def _check_super_user(value: str) -> str:
    if value == UNKNOWN_LOGIN:
        raise ValueError("these are many users, of whom no name is known: add a rule")
    if value == "User:*":
        raise ValueError('"User:*" is no user, and super_users has no patterns: name each, or add a rule for User:*')
    return _check_principal_pattern(value)


def _resolve_class_path(value: str, info: ValidationInfo) -> str:
    """Relative paths are relative to the configuration file, wherever the program is started."""
    folder: Path = (info.context or {}).get("folder", Path())
    return os.pathsep.join(entry and str(folder / entry) for entry in value.split(os.pathsep))


# As `host_port` reads them.
_LABEL = r"[\w:%-]{1,63}"
_HOSTS = rf"\[?{_LABEL}(\.{_LABEL})*\.?\]?"
_PORTS = r"0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_ADDRESS = rf"{_HOSTS}:{_PORTS}"
Address = Annotated[str, BeforeValidator(_check_address), WithJsonSchema(_matches(_ADDRESS))]
BindableAddress = Annotated[  # port 0: any free port
    str, BeforeValidator(_check_bindable), WithJsonSchema(_matches(rf"{_HOSTS}:(0+|{_PORTS})"))
]
Addresses = Annotated[
    list[str],
    BeforeValidator(_parse_addresses),
    WithJsonSchema(
        {
            "anyOf": [
                _matches(rf"\s*{_ADDRESS}\s*(,\s*{_ADDRESS}\s*)*"),
                {"type": "array", "minItems": 1, "items": _matches(rf"\s*{_ADDRESS}\s*")},
            ]
        }
    ),
]
# What can match a name, with `*` and `?` as in `plugins.patterns`.
_TOPIC_PATTERN = r"(\*+|\**([a-zA-Z0-9._?-]\**){1,249})"
_PRINCIPAL_PATTERN = reduce(lambda rest, letter: rf"([{letter}?]{rest}|\*[\s\S]*)", reversed("User:"), r"[\s\S]*")
TopicPattern = Annotated[
    str, Field(min_length=1), AfterValidator(_check_topic_pattern), WithJsonSchema(_matches(_TOPIC_PATTERN))
]
PrincipalPattern = Annotated[
    str, Field(min_length=1), AfterValidator(_check_principal_pattern), WithJsonSchema(_matches(_PRINCIPAL_PATTERN))
]
SuperUser = Annotated[str, AfterValidator(_check_super_user), WithJsonSchema(_matches(_PRINCIPAL_PATTERN))]
ClassPath = Annotated[str, AfterValidator(_resolve_class_path)]
Replicas = Annotated[
    int,
    AfterValidator(_check_replicas),
    WithJsonSchema({"type": "integer", "anyOf": [{"const": -1}, {"minimum": 1}]}),
]
TopicName = Annotated[
    str, AfterValidator(_check_topic_name), WithJsonSchema({"type": "string", "pattern": f"^{topic_names.PATTERN}$"})
]
Level = Literal["debug", "info", "warning", "error"]


def rename(values: Any, names: Mapping[str, str]) -> Any:
    """The values of a section by the names of our settings; ``names`` has Kafka's of some. Raises ValueError."""
    if not isinstance(values, dict):
        return values
    for kafka, name in names.items():
        if kafka in values and name in values:
            raise ValueError(f"{kafka} is the same setting as {name}; remove one of them")
    return {names.get(key, key): value for key, value in values.items()}


class Section(StrictScalars):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _empty_key_has_its_default(cls, values: Any) -> Any:
        """As "nodes:" with all its settings commented out."""
        if not isinstance(values, dict):
            return {} if values is None else values
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {key: value for key, value in values.items() if value is not None or key not in optional}
