"""Who is notified of connections."""

from __future__ import annotations

from typing import Protocol, TypeVar

from kafka_sidecar.proxy.relay.exchange import Closing

C = TypeVar("C", contravariant=True)  # what a connection is


class Observer(Protocol[C]):
    """Is notified when a connection begins and ends. Where a reason is returned, the connection ends for it."""

    def began(self, connection: C) -> Closing | None: ...

    def spoke(self, chunk: bytes) -> Closing | None:
        """``chunk`` is the first that the client sends; no broker is connected yet."""
        ...

    def ended(self, connection: C, closing: Closing) -> None: ...
