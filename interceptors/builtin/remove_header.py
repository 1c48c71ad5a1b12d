"""Removes headers from records on the way to the broker, or to consumers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from kafka_sidecar.codec.records import Records, without_headers
from kafka_sidecar.interceptors.contract import ConsumerInterceptor, Hints, ProducerInterceptor, RecordBatch
from kafka_sidecar.plugins.settings import Settings, read_settings

Hook = Literal["on_send", "on_consume"]


class RemoveHeaderSettings(Settings):
    keys: tuple[str, ...] = ()
    """Keys of the headers to remove; all headers with such a key are removed."""
    hooks: tuple[Hook, ...] = ("on_send", "on_consume")
    """Where: on the way to the broker, on the way to consumers, or both."""


class RemoveHeader(ProducerInterceptor, ConsumerInterceptor):
    """Removes all headers with certain keys."""

    settings = RemoveHeaderSettings()
    # Set for the hooks in the settings: no batch is decompressed for one that is not set.
    on_send_batch: Callable[[RecordBatch], Records]
    on_consume_batch: Callable[[RecordBatch], Records]

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = own = read_settings(RemoveHeaderSettings, configs)
        if not own.keys or not own.hooks:
            raise ValueError("has no effect: set keys, and at least one of the hooks on_send and on_consume")
        self._keys = tuple(key.encode() for key in own.keys)
        for hook in own.hooks:
            setattr(self, f"{hook}_batch", self._remove)

    def hints(self) -> Hints:
        return Hints(fail_closed=True)  # the headers may be confidential

    def _remove(self, batch: RecordBatch) -> Records:
        return without_headers(batch.records, self._keys)
