"""What a setting may look like: durations, sizes, addresses. A wrong one is a ValueError that says how to write it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic.json_schema import WithJsonSchema

LAST_PORT = 65535

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SIZE = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB)?")
_BYTES = {None: 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def _duration(value: object) -> float:
    """Seconds of a Go duration ("500ms", "1m30s")."""
    parts = _DURATION.findall(value) if isinstance(value, str) else []
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ValueError('write a duration with its unit, such as "500ms", "5s" or "1m30s"')
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def lasting(text: str, gt: float | None = None) -> Any:
    """A field whose default is ``text``, in the schema too: there a number would be wrong."""
    return Field(default=_duration(text), json_schema_extra={"default": text}, gt=gt)


def _size(value: object) -> int:
    """Bytes of a size (1048576, "64KiB", "100MiB")."""
    match = _SIZE.fullmatch(str(value)) if isinstance(value, int | str) and not isinstance(value, bool) else None
    if match is None:
        raise ValueError('write a number of bytes or a size such as "64KiB" or "100MiB"')
    return int(match[1]) * _BYTES[match[2]]


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
Duration = Annotated[float, BeforeValidator(_duration), _TEXT]
Size = Annotated[int, BeforeValidator(_size), WithJsonSchema({"type": ["string", "integer"]})]
Address = Annotated[str, BeforeValidator(_address), _TEXT]
BindableAddress = Annotated[str, BeforeValidator(_bindable), _TEXT]  # port 0: any that is free
Addresses = Annotated[
    list[str],
    BeforeValidator(_addresses),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
Replicas = Annotated[int, AfterValidator(_replicas)]
Level = Literal["debug", "info", "warning", "error"]
