"""Headers that are to go no further: not to the broker, or not to consumers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from kafka_sidecar.codec.records import Records, without_headers
from kafka_sidecar.interceptors.contract import ConsumerInterceptor, Hints, ProducerInterceptor, RecordBatch
from kafka_sidecar.plugins.settings import Settings, read_settings

Hook = Literal["on_send", "on_consume"]


class RemoveHeaderSettings(Settings):
    keys: tuple[str, ...] = ()
    """Keys of the headers that are removed; all of a key, wherever in the record they stand."""
    hooks: tuple[Hook, ...] = ("on_send", "on_consume")
    """Where: on the way to the broker, on the way to consumers, or both."""


class RemoveHeader(ProducerInterceptor, ConsumerInterceptor):
    """Removes all headers of some keys."""

    settings = RemoveHeaderSettings()
    # Only those in the settings are there: for a hook that is not there nothing is decompressed.
    on_send_batch: Callable[[RecordBatch], Records]
    on_consume_batch: Callable[[RecordBatch], Records]

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = own = read_settings(RemoveHeaderSettings, configs)
        if not own.keys or not own.hooks:
            raise ValueError("removes nothing: set keys, and at least one of the hooks on_send and on_consume")
        self._keys = tuple(key.encode() for key in own.keys)
        for hook in own.hooks:
            setattr(self, f"{hook}_batch", self._without)

    def hints(self) -> Hints:
        return Hints(fail_closed=True)  # a header may be removed because nobody is to see it

    def _without(self, batch: RecordBatch) -> Records:
        return without_headers(batch.records, self._keys)
