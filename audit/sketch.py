"""Latencies as counts in log buckets: sketches are merged by adding the counts, and the result is exact.

Bucket i holds latencies above ``BASE**(i-1)`` and at most ``BASE**i`` ms; bucket 0 all of at most 1 ms. So a percentile
is known to about 5 %. This file runs as it is and compiled (sketch.pxd holds the C types).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from math import ceil
    from math import log as ln
else:
    from cython.cimports.libc.math import ceil  # type: ignore[no-redef]
    from cython.cimports.libc.math import log as ln  # type: ignore[no-redef]

BASE = 1.1
_BUCKETS_PER_E = 1 / log(BASE)
MAX_INDEX = 400  # a thousand years
_MAX_INDEX = MAX_INDEX  # for C

Sketch = dict[int, int]  # index of a bucket -> number of records


def bucket_of(latency_ms: float) -> int:
    """The bucket of a latency.

    >>> [bucket_of(ms) for ms in (-5.0, 0.2, 1.0, 1.05, 1.1, 1.2, 100.0)]
    [0, 0, 0, 1, 1, 2, 49]
    """
    if latency_ms <= 1:
        return 0
    position = ln(latency_ms) * _BUCKETS_PER_E - 1e-9
    return _MAX_INDEX if position > _MAX_INDEX else int(ceil(position))


def encode(sketch: Mapping[int, int]) -> dict[str, object] | None:
    """As it is in an event; None without latencies."""
    if not sketch:
        return None
    indexes = sorted(sketch)
    return {"base": BASE, "i": indexes, "c": [sketch[index] for index in indexes]}
