"""The header `traceparent` of W3C Trace Context, version 00, parsed by its versioning rules, and formatted.

https://www.w3.org/TR/trace-context/#traceparent-header
"""

from __future__ import annotations

import re
from typing import NamedTuple

SAMPLED = 0x01
KNOWN_FLAGS = SAMPLED | 0x02  # level 2: the trace id is random; the flag is kept with the trace
# version, trace-id, parent-id and trace-flags:
# 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
# Digits are lower case, ids not all zero, version ff is invalid. A higher version may continue after a dash.
_FORM = re.compile(
    rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL
)


class TraceParent(NamedTuple):
    trace_id: bytes  # 32 hexadecimal digits
    span_id: bytes  # 16: the sender's, which is the parent of later spans
    flags: int

    @property
    def is_sampled(self) -> bool:
        return bool(self.flags & SAMPLED)

    def __bytes__(self) -> bytes:
        """The value of the header.

        >>> bytes(TraceParent(b"4bf92f3577b34da6a3ce929d0e0e4736", b"00f067aa0ba902b7", SAMPLED))
        b'00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
        """
        return b"00-%b-%b-%02x" % self


def parse_traceparent(header: bytes | None) -> TraceParent | None:
    """The parsed header; None if it is invalid and a new trace has to be started."""
    found = _FORM.fullmatch(header or b"")
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == b"00" and more is not None:
        return None
    known = KNOWN_FLAGS if version == b"00" else SAMPLED  # of a higher version only this flag is defined
    return TraceParent(trace_id, span_id, int(flags, 16) & known)
