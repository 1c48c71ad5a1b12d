"""JSON values as topics have them, for properties."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 40),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["NEW", "PAID", "order-1", "2026-11-05", "00000000-0000-4000-8000-000000000001"]),
    st.text(max_size=12),
)
NAMES = st.one_of(st.sampled_from("abc"), st.text(max_size=3), st.integers(0, 400).map(lambda number: f"k{number}"))
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=12)),
    max_leaves=25,
)
# Many alike, so that limits of names are reached.
_ALIKE = st.integers(0, 12).map(lambda at: {f"n{at}{one}": {f"i{two}": one for two in range(at)} for one in range(at)})
DOCUMENTS: st.SearchStrategy[Any] = st.one_of(JSON, _ALIKE)
