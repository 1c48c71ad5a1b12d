"""Where clients may write, as their brokers say: no object is stored for a client that the broker does not let write.

A batch's objects are stored before it is sent. So the broker is asked first, with a Produce of no records: it checks
the login, the topic, the partition and the right to write before it finds that there are none.
"""

from __future__ import annotations

from collections.abc import Callable

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.plugins.bounded import Bounded
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.exchanges.produce_response import PartitionKey, PartitionRejection
from kafka_sidecar.proxy.features.large_messages.slices import SliceRequests
from kafka_sidecar.proxy.relay.exchange import Send

MAX_AGE_S = 30.0
MAX_KNOWN = 10_000
# What a broker says of no records where the client may write; before Kafka 2.4 they are CORRUPT_MESSAGE, and in the
# versions 0 to 2 of the request nothing is wrong with them.
MAY_WRITE = frozenset({ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD})


class WriteRights:
    """What brokers have said, by connection and partition, remembered for a short while."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock  # seconds
        self._known = Bounded[tuple[int, PartitionKey], float](MAX_KNOWN)

    def ask(self, connection: int, key: PartitionKey, requests: SliceRequests) -> Steps[PartitionRejection | None]:
        """Why the client of this connection may not write there; None: it may."""
        now = self._clock()
        asked_at = self._known.get((connection, key))
        if asked_at is not None and now - asked_at <= MAX_AGE_S:
            return None
        (answer,) = yield Send((requests.frame((b"",)),))
        result, _ = requests.result(answer)
        if result.error_code not in MAY_WRITE:
            return PartitionRejection(
                result.error_code, result.error_message or "the broker rejects the client's records"
            )
        self._known[connection, key] = now
        return None
