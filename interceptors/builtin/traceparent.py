"""The header `traceparent` of W3C Trace Context, version 00: read as its versioning rules say, and written.

https://www.w3.org/TR/trace-context/#traceparent-header
"""

from __future__ import annotations

import re
from typing import NamedTuple

SAMPLED = 0x01
KNOWN_FLAGS = SAMPLED | 0x02  # level 2: the trace id is random; it stays with the trace
# version, trace-id, parent-id and trace-flags:
# 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
# Digits are lower case, ids not all zero, and there is no version ff. A higher version may go on behind a dash.
_FORM = re.compile(
    rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL
)


class TraceParent(NamedTuple):
    trace_id: bytes  # 32 hexadecimal digits
    span_id: bytes  # 16: the sender's, and so the parent of what is done with the record
    flags: int

    @property
    def is_sampled(self) -> bool:
        return bool(self.flags & SAMPLED)

    def __bytes__(self) -> bytes:
        """As it stands in the header.

        >>> bytes(TraceParent(b"4bf92f3577b34da6a3ce929d0e0e4736", b"00f067aa0ba902b7", SAMPLED))
        b'00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
        """
        return b"00-%b-%b-%02x" % self


def parse_traceparent(header: bytes | None) -> TraceParent | None:
    """What a header says; None where it is not valid, and the trace has to start anew."""
    found = _FORM.fullmatch(header or b"")
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == b"00" and more is not None:
        return None
    known = KNOWN_FLAGS if version == b"00" else SAMPLED  # of a higher version this flag alone is known
    return TraceParent(trace_id, span_id, int(flags, 16) & known)
