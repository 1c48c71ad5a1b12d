"""Adds headers to every sent record: fixed ones, from the environment such as a pod's name, or about the client."""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, field_validator
from pydantic.json_schema import WithJsonSchema

from kafka_sidecar.codec.records import Records, with_header
from kafka_sidecar.interceptors.contract import Context, ProducerInterceptor, RecordBatch
from kafka_sidecar.plugins.settings import Settings, read_settings

Value = Callable[[Context], bytes | None]  # None: unknown, the header is not added

CLIENT_VALUES: Mapping[str, Callable[[Context], str | None]] = {
    "client_id": lambda context: context.client_id,
    "client_software": lambda context: context.client_software,
    "principal": lambda context: context.principal,
    "session": lambda context: str(context.session),
}
_SECRET_KEY = re.compile(r"^(proxy-)?authorization$|^(set-)?cookie$|password|secret|api-?key$|token$", re.IGNORECASE)
_CREDENTIALS = re.compile(r"\s*(Bearer|Basic)\s+\S", re.IGNORECASE)
REMEDY = (
    "write text, in quotes if it looks like a number, or one of {env: NAME}, {file: PATH}, {from: WHAT}, {base64: TEXT}"
)


def parse_value(given: object) -> Value:
    """The value of a header, as configured in the file.

    Raises:
        ValueError: the syntax is unknown, or a variable or file does not exist.
    """
    match given:
        case str(text):
            return _constant(text.encode())
        case {"env": str(name), **others} if others.keys() <= {"default"}:
            return _constant(_read_variable(name, others.get("default")))
        case {"file": str(path), **others} if not others:
            return _constant(_read_file(path))
        case {"base64": str(text), **others} if not others:
            return _constant(_decode(text))
        case {"from": str(what), **others} if not others:
            return _from_client(what)
    raise ValueError(REMEDY)


Given = Annotated[Value, BeforeValidator(parse_value), WithJsonSchema({"type": ["string", "object"]})]


class AddHeaderSettings(Settings):
    headers: dict[str, Given] = {}  # noqa: RUF012 - pydantic copies it
    """The headers to add, in this order: the key, and the source of the value."""
    if_absent: bool = True
    """Whether the header is added only to records without one of the same key."""

    @field_validator("headers", mode="before")
    @classmethod
    def _reject_secrets(cls, headers: Any) -> Any:
        for key, given in headers.items() if isinstance(headers, dict) else ():
            written = [given] if isinstance(given, str) else list(given.values()) if isinstance(given, dict) else []
            is_written = isinstance(given, str) or (isinstance(given, dict) and given.keys() & {"base64", "default"})
            is_secret = _SECRET_KEY.search(str(key)) or any(_CREDENTIALS.match(str(one)) for one in written)
            if is_written and is_secret:
                raise ValueError(f"{key}: a secret is not written into this file: use {{env: NAME}} or {{file: PATH}}")
        return headers


class AddHeader(ProducerInterceptor):
    """Appends headers to every record, in the order of the file."""

    settings = AddHeaderSettings()

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = own = read_settings(AddHeaderSettings, configs)
        if not own.headers:
            raise ValueError("has no effect: set headers")
        self._headers = [(key.encode(), one) for key, one in own.headers.items()]

    def on_send_batch(self, batch: RecordBatch) -> Records:
        records, if_absent = batch.records, self.settings.if_absent
        for key, value_for in self._headers:
            if (data := value_for(batch.context)) is not None:
                records = with_header(records, key, data, only_if_absent=if_absent)
        return records


def _constant(data: bytes) -> Value:
    return lambda context: data


def _read_variable(name: str, default: object) -> bytes:
    text = os.environ.get(name, default)
    if not isinstance(text, str):
        raise ValueError(f"the environment variable {name} is not set: set it, or give a text as default")
    return text.encode("utf-8", "surrogateescape")


def _read_file(path: str) -> bytes:
    try:
        return Path(path).read_bytes().strip()
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from error


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError("is not base64: write it as `base64` prints it") from error


def _from_client(what: str) -> Value:
    if what not in CLIENT_VALUES:
        raise ValueError(f"from: unknown value {what}: write one of {', '.join(CLIENT_VALUES)}")
    read = CLIENT_VALUES[what]

    def value_for(context: Context) -> bytes | None:
        text = read(context)
        return None if text is None else text.encode("utf-8", "surrogateescape")

    return value_for
