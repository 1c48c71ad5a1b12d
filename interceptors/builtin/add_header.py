"""Headers for every record that is sent: fixed ones, of the surroundings such as a pod's name, or of the client."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator
from pydantic.json_schema import WithJsonSchema

from kafka_sidecar.codec.records import Records, with_header
from kafka_sidecar.interceptors.contract import Context, ProducerInterceptor, RecordBatch
from kafka_sidecar.plugins.settings import Settings, read_settings

Value = Callable[[Context], bytes | None]  # None: not known, the header is not added

OF_THE_CLIENT: Mapping[str, Callable[[Context], str | None]] = {
    "client_id": lambda context: context.client_id,
    "client_software": lambda context: context.client_software,
    "principal": lambda context: context.principal,
    "session": lambda context: str(context.session),
}
REMEDY = (
    "write text, in quotes if it looks like a number, or one of {env: NAME}, {file: PATH}, {from: WHAT}, {base64: TEXT}"
)


def value(given: object) -> Value:
    """What a header's value is, as the configuration file says it.

    Raises:
        ValueError: it says nothing that is known, or names a variable or file that is not there.
    """
    match given:
        case str(text):
            return _fixed(text.encode())
        case {"env": str(name), **others} if others.keys() <= {"default"}:
            return _fixed(_variable(name, others.get("default")))
        case {"file": str(path), **others} if not others:
            return _fixed(_contents(path))
        case {"base64": str(text), **others} if not others:
            return _fixed(_decoded(text))
        case {"from": str(what), **others} if not others:
            return _of_the_client(what)
    raise ValueError(REMEDY)


Given = Annotated[Value, BeforeValidator(value), WithJsonSchema({"type": ["string", "object"]})]


class AddHeaderSettings(Settings):
    headers: dict[str, Given] = {}  # noqa: RUF012 - pydantic copies it
    """What is added, in this order: the header's key, and where its value comes from."""
    if_absent: bool = True
    """Whether a record that has a header of the same key is left as it is; otherwise it has one more at the end."""


class AddHeader(ProducerInterceptor):
    """Adds headers at the end of every record's, in the order in which they are written in the file."""

    settings = AddHeaderSettings()

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = own = read_settings(AddHeaderSettings, configs)
        if not own.headers:
            raise ValueError("adds nothing: set headers")
        self._headers = [(key.encode(), one) for key, one in own.headers.items()]

    def on_send_batch(self, batch: RecordBatch) -> Records:
        records, if_absent = batch.records, self.settings.if_absent
        for key, value_for in self._headers:
            if (data := value_for(batch.context)) is not None:
                records = with_header(records, key, data, only_if_absent=if_absent)
        return records


def _fixed(data: bytes) -> Value:
    return lambda context: data


def _variable(name: str, default: object) -> bytes:
    text = os.environ.get(name, default)
    if not isinstance(text, str):
        raise ValueError(f"the environment variable {name} is not set: set it, or write a text as default beside env")
    return text.encode("utf-8", "surrogateescape")


def _contents(path: str) -> bytes:
    try:
        return Path(path).read_bytes().strip()
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from error


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError("is not base64: write it as `base64` prints it") from error


def _of_the_client(what: str) -> Value:
    if what not in OF_THE_CLIENT:
        raise ValueError(f"a client has no {what}: it has {', '.join(OF_THE_CLIENT)}")
    ask = OF_THE_CLIENT[what]

    def value_for(context: Context) -> bytes | None:
        text = ask(context)
        return None if text is None else text.encode("utf-8", "surrogateescape")

    return value_for
