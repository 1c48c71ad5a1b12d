"""What settings of the program may look like. A wrong one is a ValueError that says how to write it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic.json_schema import WithJsonSchema

from kafka_sidecar.plugins.units import seconds

LAST_PORT = 65535


def lasting(text: str, gt: float | None = None) -> Any:
    """A field whose default is ``text``, in the schema too: there a number would be wrong."""
    return Field(default=seconds(text), json_schema_extra={"default": text}, gt=gt)


_HOST = re.compile(r"[\w.:%-]+")


def host_port(value: object) -> tuple[str, int]:
    """Host and port of "host:port" or "[ipv6]:port"; ValueError otherwise."""
    host, _, port = str(value).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not port.isdecimal() or int(port) > LAST_PORT or not _HOST.fullmatch(host) or not _can_be_resolved(host):
        raise ValueError(f'write host:port, such as "127.0.0.1:9092", in place of {str(value)!r}')
    return host, int(port)


def _can_be_resolved(host: str) -> bool:
    """Whether the resolver takes the name at all; it raises no OSError for an empty or too long label."""
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False


def _bindable(value: object) -> str:
    host_port(value)
    return str(value)


def _address(value: object) -> str:
    if not host_port(value)[1]:
        raise ValueError(f"write a port from 1 to {LAST_PORT} in place of {str(value)!r}")
    return str(value)


def _addresses(value: object) -> list[str]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list) or not items:
        raise ValueError('name at least one broker, such as "kafka-1:9092,kafka-2:9092"')
    return [_address(item.strip() if isinstance(item, str) else item) for item in items]


def _replicas(value: int) -> int:
    if value < -1 or value == 0:
        raise ValueError("write a number above 0, or -1 for the cluster's default")
    return value


_TEXT = WithJsonSchema({"type": "string"})
Address = Annotated[str, BeforeValidator(_address), _TEXT]
BindableAddress = Annotated[str, BeforeValidator(_bindable), _TEXT]  # port 0: any that is free
Addresses = Annotated[
    list[str],
    BeforeValidator(_addresses),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
Replicas = Annotated[int, AfterValidator(_replicas)]
Level = Literal["debug", "info", "warning", "error"]
