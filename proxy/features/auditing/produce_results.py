"""Counts the batches of Produce requests with their results.

The partitions of a request are those that the client has named; one that the sidecar has not forwarded was rejected by
it. An error DUPLICATE_SEQUENCE_NUMBER is a success at an unknown offset, as clients take it (KIP-98).

This file runs as it is and compiled (produce_results.pxd holds the C types).
"""

from __future__ import annotations

from kafka_sidecar.audit.contract import NO_OFFSET, Result
from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.produce_counts import NOT_ANSWERED
from kafka_sidecar.proxy.features.auditing.counting import Counting, large_messages, named
from kafka_sidecar.proxy.relay.exchange import LargeByPartition

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.produce_counts import Sent, acknowledge
    from kafka_sidecar.codec.produce_notes import ProduceNotes
    from kafka_sidecar.proxy.features.auditing.client import TappedClient
else:
    from cython.cimports.kafka_sidecar.codec.produce_counts import Sent, acknowledge  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.codec.produce_notes import ProduceNotes  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.proxy.features.auditing.client import TappedClient  # type: ignore[no-redef]

API = "Produce"
ACKED, FAILED, REJECTED, UNKNOWN = Result.ACKED, Result.FAILED, Result.REJECTED, Result.UNKNOWN
# For C.
_NO_OFFSET, _NOT_ANSWERED, _DUPLICATE = NO_OFFSET, NOT_ANSWERED, int(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
_US_PER_S = 1e6


class ProduceResults:
    """Of all requests of one version."""

    __slots__ = ("attempts", "counting", "version")

    def __init__(self, counting: Counting, version: int) -> None:
        self.attempts = counting.copies.attempts
        self.counting = counting
        self.version = version

    def answered(
        self,
        client: TappedClient,
        sent: list[Sent],
        data: bytes,
        start: int,
        end: int,
        latency_s: float,
        forwarded: set[tuple[str | bytes, int]] | None,
        was_abandoned: bool,
    ) -> None:
        """Count each batch with what the response data[start:end] says of it.

        Args:
            forwarded: the partitions that the broker got; None: all.
            was_abandoned: the client has closed before this response.
        """
        try:
            acknowledge(sent, data, start, end, self.version)
        except CodecError:
            self.counting.stats.unreadable(API)
            self.unknown(client, sent, forwarded, was_abandoned)
            return
        are_stored = self.count(client, sent, forwarded, None, latency_s)
        if self.attempts or was_abandoned or not are_stored:
            self.counting.copies.settled(client.audited, sent, was_abandoned)

    def unknown(
        self,
        client: TappedClient,
        sent: list[Sent],
        forwarded: set[tuple[str | bytes, int]] | None,
        was_abandoned: bool,
    ) -> None:
        """Count each batch: of none it will be known whether it was stored."""
        self.count(client, sent, forwarded, UNKNOWN, 0)
        self.counting.copies.settled(client.audited, sent, was_abandoned)

    def count(
        self,
        client: TappedClient,
        sent: list[Sent],
        forwarded: set[tuple[str | bytes, int]] | None,
        ending: Result | None,
        latency_s: float,
    ) -> bool:
        """Count each batch: with what the response says of it or, if ``ending`` is given, with that.

        Returns whether the broker has stored all of them.
        """
        place, are_stored = 0, ending is None
        while place < len(sent):
            try:
                while place < len(sent):
                    one = sent[place]
                    place += 1
                    if ending is None and not one.error:
                        # The broker's time (LogAppendTime) is that which consumers see.
                        timestamp = one.timestamp if one.append_time < 0 else one.append_time
                        result, base = ACKED, one.base_offset
                    else:
                        are_stored, timestamp, base = False, one.timestamp, _NO_OFFSET
                        result = _result(one, ending, forwarded)
                    counter = client.produce_counter(self.counting, one.key, one.index)
                    if counter is not None:
                        counter.count(timestamp, one.count, one.size, result, base, latency_s)
                    else:
                        self._call(client, one.key, one.index, timestamp, one.count, one.size, result, base, latency_s)
            except Exception as error:  # noqa: BLE001 - an auditor must not cost a connection
                self.counting.stats.failed(API, error)
        return are_stored

    def count_large(
        self,
        client: TappedClient,
        sent: list[Sent],
        large: LargeByPartition,
        forwarded: set[tuple[str | bytes, int]] | None,
        ending: Result | None,
    ) -> None:
        """Call the auditor for each batch with large messages. Before `count`, with the same arguments."""
        call = self.counting.auditor.produced_large
        for one in sent:
            messages = tuple(large.get((one.key, one.index), ()))
            if messages:
                is_stored = ending is None and not one.error
                base = one.base_offset if is_stored else _NO_OFFSET
                last = base + one.count - 1 if base != _NO_OFFSET else base
                timestamp = one.append_time if is_stored and one.append_time >= 0 else one.timestamp
                result = ACKED if is_stored else _result(one, ending, forwarded)
                batch = one.index, timestamp, base, last
                self.counting.call(API, one.key, large_messages(client.audited, None, batch, messages, call, result))

    def count_large_answered(
        self,
        client: TappedClient,
        sent: list[Sent],
        data: bytes,
        start: int,
        end: int,
        large: LargeByPartition,
        forwarded: set[tuple[str | bytes, int]] | None,
    ) -> None:
        """As `count_large`, before `answered`."""
        ending = None
        try:
            acknowledge(sent, data, start, end, self.version)
        except CodecError:
            ending = UNKNOWN
        self.count_large(client, sent, large, forwarded, ending)

    def count_stored(self, client: TappedClient, notes: ProduceNotes) -> None:
        """Count the batches of a request that fits its response: all are stored."""
        is_done = False
        while not is_done:
            try:
                latency_s = notes.elapsed_us / _US_PER_S
                while notes.next_batch():
                    count, size, base = notes.count, notes.size, notes.base_offset
                    counter = client.produce_counter(self.counting, notes.key, notes.index)
                    if counter is not None:
                        counter.count(notes.timestamp, count, size, ACKED, base, latency_s)
                    else:
                        self._call(client, notes.key, notes.index, notes.timestamp, count, size, ACKED, base, latency_s)
                is_done = True
            except Exception as error:  # noqa: BLE001 - see above
                self.counting.stats.failed(API, error)

    def _call(
        self,
        client: TappedClient,
        key: str | bytes,
        index: int,
        timestamp: int,
        count: int,
        size: int,
        result: Result,
        base: int,
        latency_s: float,
    ) -> None:
        """Call the auditor once the name of the topic is known."""
        rest = index, timestamp, count, size, result, base, latency_s
        self.counting.call(API, key, named(self.counting.auditor.produced, (client.audited,), rest))


def _result(one: Sent, ending: Result | None, forwarded: set[tuple[str | bytes, int]] | None) -> Result:
    if ending is UNKNOWN or (ending is None and one.error == _NOT_ANSWERED):
        return UNKNOWN
    if forwarded is not None and (one.key, one.index) not in forwarded:
        return REJECTED
    return ending or (ACKED if one.error == _DUPLICATE else FAILED)
